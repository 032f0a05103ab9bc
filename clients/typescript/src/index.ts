// What the package exports.

export type * from "./api.js";
export { type Approval, type AttributeValue, Client, type Doubt, type ListOptions, type OpenApproval, type State, type SubmitOptions } from "./client.js";
export { ClientSettingsError, LostDaemonError, OldDaemonError, RunFailedError, TiffanyError } from "./errors.js";
export type { Activity, EventOptions, Item } from "./events.js";
export type { CallOptions, ClientOptions } from "./http.js";
