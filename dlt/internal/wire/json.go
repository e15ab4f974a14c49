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

// QuoteWord formats an unknown status word. Of a long word it gives only the length, because a
// part of it could be a part of a token that the redactor does not recognize.
func QuoteWord(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("of %d bytes", len(s))
	}
	return strconv.Quote(s)
}
