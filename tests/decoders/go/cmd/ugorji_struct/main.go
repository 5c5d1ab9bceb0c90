// Command ugorji_struct decodes into a struct that is tagged as an array, with the fields of
// revision 2.
package main

import (
	"fmt"

	"github.com/ugorji/go/codec"

	"loadwire/decoders/testee"
)

type loadStat struct {
	_struct                    bool `codec:",toarray"`
	Tag                        string
	NumRunningReqs             uint64
	NumWaitingReqs             uint64
	NumTokens                  uint64
	MaxTotalNumTokens          uint64
	AttnDPRank                 *uint64
	NumWaitingUncachedTokens   uint64
	NumTotalTokens             uint64
	MaxRunningRequests         uint64
	TotalPrefillUncachedTokens uint64
	TotalPrefillBusyUs         uint64
}

var handle codec.MsgpackHandle

func decode(payload []byte) (testee.Fields, error) {
	var stat loadStat
	if err := codec.NewDecoderBytes(payload, &handle).Decode(&stat); err != nil {
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
		stat.NumWaitingUncachedTokens,
		stat.NumTotalTokens,
		stat.MaxRunningRequests,
		stat.TotalPrefillUncachedTokens,
		stat.TotalPrefillBusyUs,
	), nil
}

func main() {
	testee.Serve("go-ugorji-struct", 2, map[string]string{
		"TrailingBytes": "accept",
		"OmittedRank":   "accept",
		"TagAsBin":      "accept",
		"CountAboveI64": "accept",
		"PartialTail":   "partial",
		"NilTail":       "reject",
	}, decode)
}
