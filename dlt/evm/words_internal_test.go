package evm

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/internal/tier"
)

// Each text of the table has its class, in upper or lower case and inside a proxy's text. An
// unknown text is doubt under every code but the three that the protocol and HTTP fix.
func TestWords(t *testing.T) {
	tier.Plain(t)
	for i, w := range textClasses {
		for _, text := range w.texts {
			got := classify(&rpcError{Code: -32000, Message: "Node says: " + text + "!"})
			before := slices.ContainsFunc(textClasses[:i], func(x struct {
				class answerClass
				texts []string
			}) bool {
				return x.class == got
			})
			assert.True(t, got == w.class || before, "%q is %d", text, got)
		}
	}
	certain := map[int]answerClass{codeMethodNotFound: classMisconfigured, codeLimitExceeded: classBusy, codeTooManyRequests: classBusy}
	for code := -33000; code <= 600; code++ {
		for _, text := range []string{"", "no", "internal error", "execution reverted", "something went wrong", "invalid request", "denied"} {
			want := certain[code] // doubt if it is in neither table
			assert.Equal(t, want, classify(&rpcError{Code: code, Message: text}), fmt.Sprint(code, " ", text))
		}
	}
	for status := range 1000 {
		class := classOfStatus(status)
		assert.Contains(t, []any{classDoubt, classBusy, classMisconfigured}, class, "HTTP %d alone ends nothing", status)
	}
}
