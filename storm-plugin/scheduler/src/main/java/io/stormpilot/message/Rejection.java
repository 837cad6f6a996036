package io.stormpilot.message;

/** Why a plan is refused: a code for programs and a sentence for people. */
public record Rejection(Reason reason, String text) {}
