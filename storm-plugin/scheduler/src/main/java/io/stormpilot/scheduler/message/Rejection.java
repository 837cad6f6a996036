package io.stormpilot.scheduler.message;

/** Why a plan is rejected: a code for programs and a sentence for people. */
public record Rejection(Reason reason, String text) {}
