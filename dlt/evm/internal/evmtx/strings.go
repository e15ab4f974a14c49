package evmtx

import (
	"fmt"

	"github.com/dltbatch/dltbatch/batch"
)

// EncodeStrings returns the RLP list of some strings of bytes.
func EncodeStrings(items [][]byte) []byte {
	var content []byte
	for _, item := range items {
		content = appendBytes(content, item)
	}
	return appendList(nil, content)
}

// DecodeStrings reads a list of strings of bytes, after which nothing may follow. It stops after
// most+1 strings. The strings share raw's memory. An error names field.
func DecodeStrings(field string, raw []byte, most int) (items [][]byte, err error) {
	fail := func(err error) ([][]byte, error) {
		return nil, &batch.InputError{Field: field, Want: "the canonical RLP of a list of strings", Err: fmt.Errorf("%w: %w", ErrEncoding, err)}
	}
	list, content, rest, err := splitFirstItem(raw)
	if err == nil && !list {
		err = errWrongKind
	}
	if err != nil {
		return fail(err)
	}
	if len(rest) > 0 {
		return nil, &batch.InputError{Field: field, Value: fmt.Sprintf("%d bytes", len(raw)), Want: fmt.Sprintf("%d: nothing behind it", len(raw)-len(rest)), Err: ErrTrailing}
	}
	r := rlpReader{rest: content}
	for len(r.rest) > 0 && len(items) <= most {
		item := r.bytes(field)
		if r.err != nil {
			return fail(r.err)
		}
		items = append(items, item)
	}
	return items, nil
}
