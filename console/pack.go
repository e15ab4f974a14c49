package console

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/operator"
)

// maxPackedSize limits an unpacked selection, in bytes; 10,000 of the longest names need less.
const maxPackedSize = 16 << 20

// packSelection writes a selection for the field of a form. So no process has to keep the
// selection, and any replica may continue. It leaves out the parts that are only for people.
func packSelection(s operator.Selection) (string, error) {
	s.First, s.Causes = nil, nil
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	err := json.NewEncoder(z).Encode(s)
	if closed := z.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", fmt.Errorf("console: pack a selection: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(b.Bytes()), nil
}

// unpackSelection reads a selection. The desk later refuses one that was changed.
func unpackSelection(text string) (s operator.Selection, err error) {
	bad := func(err error) error {
		return &batch.InputError{Field: "selection", Value: batch.Excerpt(text, 32), Want: "a selection as the preview has it", Err: err}
	}
	zipped, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return s, bad(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		return s, bad(err)
	}
	if s, err = decodeSelection(json.NewDecoder(io.LimitReader(z, maxPackedSize))); err != nil {
		return s, bad(err)
	}
	return s, nil
}

// maxBulkText limits the bulk action in a selection, which includes its filter, in bytes.
const maxBulkText = 64 << 10

// decodeSelection reads a selection value by value, because a short text may stand for millions of
// small values, which take a hundred times the memory of their text. The parts that are only for
// people must be empty.
func decodeSelection(d *json.Decoder) (s operator.Selection, err error) {
	if err := expectToken(d, '{'); err != nil {
		return s, err
	}
	seen := map[string]bool{}
	for d.More() {
		word, err := d.Token()
		if err != nil {
			return s, err
		}
		name, _ := word.(string)
		if seen[name] {
			return s, fmt.Errorf("%q stands there twice", batch.Excerpt(name, 32))
		}
		seen[name] = true
		switch name {
		case "bulk":
			var text json.RawMessage
			if err = d.Decode(&text); err == nil && len(text) > maxBulkText {
				err = fmt.Errorf("the bulk action has %d bytes, want at most %d", len(text), maxBulkText)
			}
			if err == nil {
				err = json.Unmarshal(text, &s.Bulk)
			}
		case "at":
			err = d.Decode(&s.At)
		case "batches":
			s.Batches, err = decodeBatches(d)
		case "more":
			err = d.Decode(&s.More)
		case "token":
			err = d.Decode(&s.Token)
		default:
			var text json.RawMessage
			if err = d.Decode(&text); err == nil && string(text) != "null" {
				err = fmt.Errorf("%q is not part of a packed selection", batch.Excerpt(name, 32))
			}
		}
		if err != nil {
			return s, err
		}
	}
	return s, expectToken(d, '}')
}

// decodeBatches reads at most bulkMax batches.
func decodeBatches(d *json.Decoder) (all []operator.Seen, err error) {
	if err := expectToken(d, '['); err != nil {
		return nil, err
	}
	for d.More() {
		if len(all) == maxBulk {
			return nil, fmt.Errorf("there are more than %d batches", maxBulk)
		}
		var one operator.Seen
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, expectToken(d, ']')
}

func expectToken(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = fmt.Errorf("%v stands where %v is expected", got, want)
	}
	return err
}
