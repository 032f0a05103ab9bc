// Errors: those of the daemon keep their code, and those of the connection have one of their own.

/** An error with its code, which the book explains, and the next step. */
export class TiffanyError extends Error {
  override readonly name: string = "TiffanyError";

  constructor(
    readonly code: string,
    readonly title: string,
    readonly next: string,
    options?: ErrorOptions,
  ) {
    super(`${title} [${code}]${next ? `; ${next}` : ""}`, options);
  }
}

/** A run ended with an error, was cancelled, or does not continue at present. */
export class RunFailedError extends TiffanyError {
  override readonly name = "RunFailedError";

  constructor(
    readonly run: string,
    readonly state: string,
    code: string,
    title: string,
  ) {
    super(code, title, `see with \`tiffany show ${run}\` what happened`);
  }
}

/** The daemon could not be reached, or the connection broke (TFY0300). */
export class LostDaemonError extends TiffanyError {
  override readonly name = "LostDaemonError";

  constructor(url: string, begun: boolean, cause: unknown) {
    const why = cause instanceof Error ? reason(cause) : String(cause);
    const unsure = begun ? "; the request was sent, so what it was to change may have happened: look before you repeat it" : "";
    super("TFY0300", `the daemon at ${url} could not be reached: ${why}${unsure}`, "check that the daemon runs and can be reached from here", { cause });
  }
}

/** The daemon does not know a request, or what answers is not a daemon of Tiffany (TFY0302). */
export class OldDaemonError extends TiffanyError {
  override readonly name = "OldDaemonError";

  constructor(what: string) {
    super("TFY0302", `the daemon does not know ${what}`, "upgrade the daemon to the version of this client, or check the URL");
  }
}

/** The client was given an address that it does not use (TFY0303). */
export class ClientSettingsError extends TiffanyError {
  override readonly name = "ClientSettingsError";

  constructor(title: string, next: string) {
    super("TFY0303", title, next);
  }
}

function reason(error: Error): string {
  const cause = error.cause;
  return cause instanceof Error ? cause.message || error.message : error.message;
}

const NO_PATH = new Set(["TFY0162", "TFY0163"]);

/** Makes an error of an answer that is `application/problem+json`. */
export function ofProblem(status: number, body: string, what: string): TiffanyError {
  try {
    const problem = JSON.parse(body) as { code?: unknown; title?: unknown; next?: unknown };
    if (typeof problem.code === "string" && typeof problem.title === "string") {
      return NO_PATH.has(problem.code)
        ? new OldDaemonError(what)
        : new TiffanyError(problem.code, problem.title, typeof problem.next === "string" ? problem.next : "");
    }
  } catch {
    // It is not the daemon that answers.
  }
  return new OldDaemonError(`${what}: it answered with the status ${status} and without a code`);
}
