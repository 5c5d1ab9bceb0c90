// Command vmihailenco_struct unmarshals into a struct that is tagged as an array.
package main

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"loadwire/decoders/testee"
)

type loadStat struct {
	_msgpack          struct{} `msgpack:",as_array"`
	Tag               string
	NumRunningReqs    uint64
	NumWaitingReqs    uint64
	NumTokens         uint64
	MaxTotalNumTokens uint64
	AttnDPRank        *uint64
}

func decode(payload []byte) (testee.Fields, error) {
	var stat loadStat
	if err := msgpack.Unmarshal(payload, &stat); err != nil {
		return nil, err
	}
	if stat.Tag != "LoadStat" {
		return nil, fmt.Errorf("unexpected tag %q", stat.Tag)
	}
	return testee.Named(
		stat.NumRunningReqs,
		stat.NumWaitingReqs,
		stat.NumTokens,
		stat.MaxTotalNumTokens,
		stat.AttnDPRank,
	), nil
}

func main() {
	testee.Serve("go-vmihailenco-struct", 1, map[string]string{
		"TrailingBytes": "accept",
		"OmittedRank":   "reject",
		"TagAsBin":      "accept",
		"CountAboveI64": "accept",
		"PartialTail":   "older",
		"NilTail":       "reject",
	}, decode)
}
