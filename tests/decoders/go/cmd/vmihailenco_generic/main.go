// Command vmihailenco_generic decodes whatever comes and picks elements out of the slice.
package main

import (
	"bytes"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"loadwire/decoders/testee"
)

func toInt64(value any) (int64, error) {
	switch number := value.(type) {
	case int64:
		return number, nil
	case uint64:
		return int64(number), nil
	case float64:
		return int64(number), nil
	}
	return 0, fmt.Errorf("%v is not a number", value)
}

func decode(payload []byte) (testee.Fields, error) {
	decoder := msgpack.NewDecoder(bytes.NewReader(payload))
	decoder.UseLooseInterfaceDecoding(true)
	elements, err := decoder.DecodeSlice()
	if err != nil {
		return nil, err
	}
	if len(elements) < 6 {
		return nil, fmt.Errorf("%d elements", len(elements))
	}
	if tag, ok := elements[0].(string); !ok || tag != "LoadStat" {
		return nil, fmt.Errorf("unexpected tag %v", elements[0])
	}
	known := 6
	if len(elements) >= 11 {
		known = 11
	}
	values := []any{}
	for index, element := range elements[1:known] {
		if index == 4 && element == nil {
			values = append(values, nil)
			continue
		}
		number, err := toInt64(element)
		if err != nil {
			return nil, err
		}
		values = append(values, number)
	}
	return testee.Named(values...), nil
}

func main() {
	testee.Serve("go-vmihailenco-generic", 2, map[string]string{
		"TrailingBytes": "accept",
		"OmittedRank":   "reject",
		"TagAsBin":      "accept",
		"CountAboveI64": "accept",
		"PartialTail":   "older",
		"NilTail":       "reject",
	}, decode)
}
