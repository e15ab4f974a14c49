package wire

import (
	"errors"
	"fmt"
	"io"
	"strconv"
)

// UnexpectedEOF turns an EOF in the middle of an answer into io.ErrUnexpectedEOF.
func UnexpectedEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// QuoteWord formats an unknown status word. It gives only the length of a long word: a cut one
// could be a part of a token that the redactor no longer recognizes.
func QuoteWord(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("of %d bytes", len(s))
	}
	return strconv.Quote(s)
}
