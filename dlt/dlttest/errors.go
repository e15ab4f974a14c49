package dlttest

import (
	"context"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt"
)

// maxErrorText is the largest allowed length of an error's text, in bytes. A text has several
// parts, each of limited length.
const maxErrorText = 4096

func errorChecks() []Check {
	var all []Check
	for _, f := range [...]Fault{Busy, Refused, Unreachable, Misconfigured, NotYet, LostRequest, LostReply, Hang, UnknownAnswer, Redirect} {
		all = append(all, Check{
			Name:        "Errors/" + string(f),
			Promise:     "the error is short and printable and shows nothing of the payload; a *dlt.Error names what failed",
			neededFault: f,
			run: func(e *checkRun) {
				e.Set(f)
				b := e.newBatch()
				secret := e.shownContent(b, e.batchCount)
				require.Contains(e, string(b.Payload), secret)
				if f == Hang { // the error of Hang may be the context's own
					ctx, cancel := context.WithTimeout(e.Context(), hangTimeout)
					defer cancel()
					e.requireFitToShow(e.requirePrompt(ctx, func() error { return e.Ledger.Submit(ctx, attempt(b)) }), secret)
					return
				}
				err := e.submit(b)
				e.requireFitToShow(err, secret)
				if typed, ok := errors.AsType[*dlt.Error](err); ok {
					assert.NotEmpty(e, typed.Op, "what failed")
				}
			},
		})
	}
	return all
}

// requireFitToShow requires an error that can be logged and stored.
func (e *checkRun) requireFitToShow(err error, secret string) {
	e.Helper()
	require.Error(e, err)
	text := err.Error()
	assert.NotContains(e, text, secret, "the payload shows")
	assert.LessOrEqual(e, len(text), maxErrorText, "length of the text")
	assert.True(e, utf8.ValidString(text), "the text is not UTF-8: %q", text)
	assert.False(e, strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t'
	}), "control characters: %q", text)
}
