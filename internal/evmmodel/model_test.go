package evmmodel

import (
	"flag"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var runsLargeSearches = flag.Bool("evmmodel.large", false, "searches with more processes and faults, which take minutes")

// With all rules the promises hold: at most one execution, a commit only for a payment that stays
// executed, a rejection only for one that never can be, and always a way to an end.
func TestRules(t *testing.T) {
	all := []bounds{{processes: 2, faults: 2}}
	if *runsLargeSearches {
		all = append(all, bounds{processes: 2, faults: 3}, bounds{processes: 3, faults: 2})
	}
	for _, b := range all {
		for _, given := range []bool{true, false} {
			t.Run(fmt.Sprintf("given=%t/%d processes/%d faults", given, b.processes, b.faults), func(t *testing.T) {
				t.Parallel()
				f := searchPayment(brokenRules{nonceIsGiven: given}, b)
				require.Empty(t, f.brokenPromise, f)
				assert.Positive(t, f.finalsByState[committed], "else nothing was tried")
				assert.Equal(t, given, f.finalsByState[rejected] > 0, "a payment whose client chooses the nonce is never given up")
				t.Logf("%d worlds; committed in %d, rejected in %d", f.worldCount, f.finalsByState[committed], f.finalsByState[rejected])
			})
		}
	}
}

// Without any one of the rules, the search finds a wrong outcome.
func TestBrokenRules(t *testing.T) {
	const twice, rejection, commit, jam = "executed twice", "rejected, and may yet be executed", "committed, and not executed", "no end can be reached"
	for name, c := range map[string]struct {
		brokenRules
		wrong string
	}{
		"bytes are kept whatever the row says":                          {brokenRules{keepsUnfenced: true}, twice},
		"bytes are sent before they are kept":                           {brokenRules{postsUnkept: true}, twice},
		"a nonce follows a block that may be taken back":                {brokenRules{takesNonceAboveHead: true}, jam},
		"a slot is given up for a block that may be taken back":         {brokenRules{givesSlotUpForShallowBlock: true}, twice},
		"a slot is given up for a missing receipt":                      {brokenRules{givesSlotUpForMissingReceipt: true}, twice},
		"a slot is given up in doubt":                                   {brokenRules{givesSlotUpInDoubt: true}, twice},
		"a slot is given up that is not the one which was seen":         {brokenRules{givesUnseenSlotUp: true}, twice},
		"a payment is rejected for a block that may be taken back":      {brokenRules{nonceIsGiven: true, rejectsForShallowBlock: true}, rejection},
		"a payment is rejected for a missing receipt":                   {brokenRules{nonceIsGiven: true, rejectsForMissingReceipt: true}, rejection},
		"a payment is rejected for a used nonce":                        {brokenRules{nonceIsGiven: true, rejectsForUsedNonce: true}, rejection},
		"a payment is committed in a block that may be taken back":      {brokenRules{nonceIsGiven: true, commitsShallowBlock: true}, commit},
		"a chosen nonce is committed in a block that may be taken back": {brokenRules{commitsShallowBlock: true}, commit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := searchPayment(c.brokenRules, bounds{processes: 2, faults: 2})
			require.Equal(t, c.wrong, f.brokenPromise, "%d worlds", f.worldCount)
			t.Log(f)
		})
	}
}
