// Package testee is the adapter: a decode function on one side, the testee protocol on the other.
package testee

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
)

// Names are the names of the counts, in wire order.
var Names = []string{
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
}

// Fields is what a decoder read: field name to decimal string, or nil.
type Fields map[string]*string

// Named names the values that a decoder read, in wire order; what it did not read is left out.
func Named(values ...any) Fields {
	fields := Fields{}
	for index, value := range values {
		fields[Names[index]] = text(value)
	}
	return fields
}

func text(value any) *string {
	switch pointer := value.(type) {
	case nil:
		return nil
	case *uint64:
		if pointer == nil {
			return nil
		}
		value = *pointer
	case *int64:
		if pointer == nil {
			return nil
		}
		value = *pointer
	}
	said := fmt.Sprint(value)
	return &said
}

type testCase struct {
	ID  string `json:"id"`
	Hex string `json:"hex"`
}

// Serve greets, then answers each case by what decode makes of it.
func Serve(implementation string, revision int, policies map[string]string, decode func([]byte) (Fields, error)) {
	output := json.NewEncoder(os.Stdout)
	say := func(message map[string]any) {
		if err := output.Encode(message); err != nil {
			panic(err)
		}
	}
	say(map[string]any{
		"loadwire":       1,
		"implementation": implementation,
		"version":        "0.1.0",
		"revision":       revision,
		"policies":       policies,
		"kinds":          []string{"payload"},
	})
	input := bufio.NewReader(os.Stdin)
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked testCase
		if err := json.Unmarshal(line, &asked); err != nil {
			panic(err)
		}
		payload, err := hex.DecodeString(asked.Hex)
		if err != nil {
			panic(err)
		}
		fields, err := decode(payload)
		if err != nil {
			say(map[string]any{"id": asked.ID, "reject": map[string]string{"text": err.Error()}})
		} else {
			say(map[string]any{"id": asked.ID, "accept": map[string]any{"value": fields}})
		}
	}
}
