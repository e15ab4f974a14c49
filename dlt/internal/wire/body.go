package wire

import (
	"context"
	"errors"
	"io"
	"time"
)

const (
	// MaxShortBody is how many bytes are read of a body whose status already says nearly
	// everything.
	MaxShortBody = 64 << 10
	// shortBodyTimeout is the time limit for reading such a body, once the status is known.
	shortBodyTimeout = 2 * time.Second
)

// ReadShortBody reads at most MaxShortBody bytes of a body. cancel cancels the request. Bytes that
// came before an error still count.
func ReadShortBody(body io.Reader, cancel context.CancelFunc) ([]byte, error) {
	timer := time.AfterFunc(shortBodyTimeout, cancel)
	defer timer.Stop()
	return io.ReadAll(io.LimitReader(body, MaxShortBody))
}

// Drain reads the rest of a short body, so that the connection can be used again. cancel cancels
// the request: a body without an end must not delay a caller that already has the answer.
func Drain(body io.ReadCloser, cancel context.CancelFunc) {
	timer := time.AfterFunc(shortBodyTimeout, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, MaxShortBody)
	_ = body.Close()
}

// BoundedReader reads at most Left bytes. If there are more, Read fails instead of ending.
type BoundedReader struct {
	R    io.Reader
	Left int64
}

// ErrTooLarge is the error of a [BoundedReader] when there are more bytes than it may read.
var ErrTooLarge = errors.New("the answer is larger than Options.MaxResponse")

// Read implements [io.Reader].
func (b *BoundedReader) Read(p []byte) (int, error) {
	if b.Left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.Left+1 { // one byte more, to find out whether there are more
		p = p[:b.Left+1]
	}
	n, err := b.R.Read(p)
	if b.Left -= int64(n); b.Left < 0 {
		return n - 1, ErrTooLarge
	}
	return n, err
}
