package io.stormpilot.scheduler.message;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.gson.JsonElement;
import io.stormpilot.Contract;
import io.stormpilot.scheduler.message.Payload.MessageException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;

/** The message that says which Storm cluster a root belongs to. */
class RootOwnerTest {

  private static RootOwner read(String text) throws MessageException {
    return RootOwner.read(text.getBytes(StandardCharsets.UTF_8));
  }

  @Test
  void isTheMessageOfTheContract() throws Exception {
    RootOwner owner = RootOwner.read(Contract.bytes("owner.json"));
    assertEquals(new RootOwner("/storm", "nimbus-1:6627"), owner);
    assertEquals(Contract.json("owner.json"), owner.json(1_763_690_300_000L));
  }

  @Test
  void aRootIsThatOfTheVectors() {
    for (JsonElement vector : Contract.json("vectors/roots.json").getAsJsonArray("vectors")) {
      String root = vector.getAsJsonObject().get("root").getAsString();
      String normal = vector.getAsJsonObject().get("normal").getAsString();
      assertEquals(normal, ZookeeperRoot.normal(root));
      assertEquals(normal, new RootOwner(root, "n").stormRoot());
    }
  }

  @Test
  void hostsMayDifferInSlashesOfARoot() {
    assertEquals(new RootOwner("/a/b", "n"), new RootOwner("a//b/", "n"));
    assertEquals("/", new RootOwner("", "n").stormRoot());
  }

  @Test
  void whatWouldForgeALineOfTheLogDoesNot() throws Exception {
    assertEquals("/a?b", read("{\"schema\":1,\"stormRoot\":\"/a\\nb\"}").stormRoot());
    for (String wrong : new String[] {"", "[]", "{\"schema\":1}", "{\"schema\":9}"}) {
      assertThrows(MessageException.class, () -> read(wrong), wrong);
    }
  }
}
