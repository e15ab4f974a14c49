package dlttest

import (
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// harnessChecks check the harness itself, since no check is better than its harness.
func harnessChecks() []Check {
	return []Check{{
		Name:    "Harness",
		Promise: "it makes batches that can be distinguished, and says why it lacks what it lacks",
		run:     checkHarness,
	}}
}

func checkHarness(e *checkRun) {
	for f, why := range e.Lacks {
		assert.True(e, slices.Contains(Faults(), f), "Lacks names %q, which is no fault", f)
		assert.NotEmpty(e, strings.TrimSpace(why), "why does it lack %q?", f)
	}
	_, lacking := e.Lacks[QuerySize]
	assert.Equal(e, e.LargestQuery == nil, lacking, "LargestQuery is nil exactly where %q is lacking", QuerySize)
	require.GreaterOrEqual(e, len(e.Services), 2, "services")
	assert.NotEqual(e, e.Services[0], e.Services[1], "services")

	a, b := e.newBatch(), e.newBatchOf(e.Services[1])
	require.NoError(e, a.Validate())
	require.NoError(e, b.Validate())
	assert.NotEqual(e, a.ID, b.ID)
	assert.Contains(e, string(a.Payload), e.shownContent(a, 1))
	assert.Zero(e, e.Posts(a.ID), "nothing was submitted yet")
}
