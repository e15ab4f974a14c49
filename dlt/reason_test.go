package dlt_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/dlt"
)

// A reason says everything once: first the kind, then the rest of the client's error.
func TestReason(t *testing.T) {
	for want, err := range map[string]error{
		"rejected: submit: HTTP 400: code 3: bad nonce": &dlt.Error{Op: "submit", StatusCode: 400, Code: 3, Message: "bad nonce", Kind: dlt.ErrRejected},
		"unavailable: node 2: submit: refused":          fmt.Errorf("node 2: %w", &dlt.Error{Op: "submit", Kind: dlt.ErrUnavailable, Err: errors.New("refused")}),
		"busy":                                          dlt.ErrBusy,
		"busy: full":                                    fmt.Errorf("full: %w", dlt.ErrBusy),
		"misconfigured: no key":                         fmt.Errorf("%w: no key", dlt.ErrMisconfigured),
		"doubt: submit: connection lost":                &dlt.Error{Op: "submit", Err: errors.New("connection lost")},
		"doubt: anything":                               errors.New("anything"),
	} {
		assert.Equal(t, want, dlt.Reason(err).Error())
	}
	assert.Nil(t, dlt.Reason(nil))
}
