package wire

import (
	"context"
	"errors"
	"io"
	"time"
)

const (
	// MaxLittle bounds what is read of a body where the status says (nearly) all, in bytes.
	MaxLittle = 64 << 10
	// patience is how long that may take once the status is known.
	patience = 2 * time.Second
)

// ReadLittle reads a body that is no longer than MaxLittle, or so much of it. cancel is
// that of the request. What was read before an error still counts.
func ReadLittle(body io.Reader, cancel context.CancelFunc) ([]byte, error) {
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	return io.ReadAll(io.LimitReader(body, MaxLittle))
}

// Drain reads the little that is left, so that the connection can be used again.
// cancel is that of the request: a body that does not end must not hold up a caller
// who is answered already.
func Drain(body io.ReadCloser, cancel context.CancelFunc) {
	timer := time.AfterFunc(patience, cancel)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, body, MaxLittle)
	_ = body.Close()
}

// Bounded fails, rather than ending, when there is more than Left bytes.
type Bounded struct {
	R    io.Reader
	Left int64
}

var errTooLarge = errors.New("the answer is larger than Options.MaxResponse")

// Read implements [io.Reader].
func (b *Bounded) Read(p []byte) (int, error) {
	if b.Left < 0 {
		return 0, errTooLarge
	}
	if int64(len(p)) > b.Left+1 { // one more, to see whether there is more
		p = p[:b.Left+1]
	}
	n, err := b.R.Read(p)
	if b.Left -= int64(n); b.Left < 0 {
		return n - 1, errTooLarge
	}
	return n, err
}
