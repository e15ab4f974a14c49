package wire

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Delim reads the next token of a JSON document, which must be want.
func Delim(d *json.Decoder, want json.Delim) error {
	t, err := d.Token()
	if err != nil {
		return UnexpectedEOF(err)
	}
	if t != want {
		return fmt.Errorf("the answer has no %q at byte %d", want, d.InputOffset())
	}
	return nil
}

// UnexpectedEOF turns an EOF in the middle of an answer into io.ErrUnexpectedEOF.
func UnexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Word formats an unknown status word. It gives only the length of a long word: a cut one could
// be a part of a token that the redactor no longer recognizes.
func Word(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("of %d bytes", len(s))
	}
	return strconv.Quote(s)
}

// List reads an array and calls each with its elements. An element that is well-formed and no T
// is left out: odd is the first such error. err ended the reading.
func List[T any](d *json.Decoder, each func(T)) (odd, err error) {
	if err := Delim(d, '['); err != nil {
		return nil, err
	}
	for d.More() {
		var e T
		err := d.Decode(&e)
		if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // the next element can be read
			odd = cmp.Or(odd, err)
			continue
		}
		if err != nil {
			return odd, UnexpectedEOF(err)
		}
		each(e)
	}
	return odd, Delim(d, ']')
}
