package xyz.wagyourtail.jvmdg.j16.stub.java_base;

/** In the place of {@code java.lang.Record}; every record has its methods itself. */
public abstract class J_L_Record {
  protected J_L_Record() {}

  @Override
  public abstract boolean equals(Object other);

  @Override
  public abstract int hashCode();

  @Override
  public abstract String toString();
}
