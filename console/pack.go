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

// maxPacked bounds a selection that is unpacked, in bytes: 10,000 of the longest names are less.
const maxPacked = 16 << 20

// pack writes a selection for the field of a form. So no process keeps it, and any replica may go on.
// It leaves out the parts that are for people only.
func pack(s operator.Selection) (string, error) {
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

// unpack reads a selection. The desk refuses a selection that was changed.
func unpack(text string) (s operator.Selection, err error) {
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
	plain, err := io.ReadAll(io.LimitReader(z, maxPacked))
	if err != nil {
		return s, bad(err)
	}
	if err := json.Unmarshal(plain, &s); err != nil {
		return s, bad(err)
	}
	if len(s.Batches) > bulkMax {
		return s, bad(nil)
	}
	return s, nil
}
