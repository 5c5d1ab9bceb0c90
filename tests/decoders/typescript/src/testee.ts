// The adapter: a decode function on one side, the testee protocol on the other.

import { createInterface } from "node:readline";

export const NAMES = [
  "num_running_reqs",
  "num_waiting_reqs",
  "num_tokens",
  "max_total_num_tokens",
  "attn_dp_rank",
  "num_waiting_uncached_tokens",
  "num_total_tokens",
  "max_running_requests",
  "total_prefill_uncached_tokens",
  "total_prefill_busy_us",
];

export type Fields = Record<string, string | null>;

/** Names the values that a decoder read, in wire order; what is undefined was not read. */
export function named(values: unknown[]): Fields {
  const fields: Fields = {};
  values.slice(0, NAMES.length).forEach((value, index) => {
    if (value !== undefined) {
      fields[NAMES[index]] = value === null ? null : spell(value);
    }
  });
  return fields;
}

// String(number) has an exponent from 1e21 on, and a double's own digits are what was read.
function spell(value: unknown): string {
  return Number.isInteger(value) ? BigInt(value as number).toString() : String(value);
}

export function serve(
  implementation: string,
  revision: number,
  policies: Record<string, string>,
  decode: (payload: Uint8Array) => Fields,
): void {
  const say = (message: object) => process.stdout.write(JSON.stringify(message) + "\n");
  say({ loadwire: 1, implementation, version: "0.1.0", revision, policies, kinds: ["payload"] });
  createInterface({ input: process.stdin }).on("line", (line) => {
    const { id, hex } = JSON.parse(line) as { id: string; hex: string };
    try {
      say({ id, accept: { value: decode(Buffer.from(hex, "hex")) } });
    } catch (error) {
      say({ id, reject: { text: String(error) } });
    }
  });
}
