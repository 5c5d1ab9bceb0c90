// The array is decoded, cast to its type and destructured.

import { decode } from "@msgpack/msgpack";

import { type Fields, named, serve } from "./testee.js";

type LoadStat = [
  tag: string,
  running: number,
  waiting: number,
  tokens: number,
  capacity: number,
  rank: number | null,
];

function decodeLoad(payload: Uint8Array): Fields {
  const [tag, running, waiting, tokens, capacity, rank] = decode(payload) as LoadStat;
  if (tag !== "LoadStat") {
    throw new Error(`unexpected tag ${tag}`);
  }
  return named([running, waiting, tokens, capacity, rank]);
}

serve(
  "typescript-destructured",
  1,
  {
    TrailingBytes: "reject",
    OmittedRank: "accept",
    TagAsBin: "reject",
    CountAboveI64: "accept",
    PartialTail: "older",
    NilTail: "reject",
  },
  decodeLoad,
);
