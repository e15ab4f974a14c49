package dlttest

import (
	"bytes"
	"slices"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
)

// payloadChecks are about slices that belong to the caller.
func payloadChecks() []Check {
	return []Check{
		{
			Name:    "Slices/payload",
			Promise: "the payload is neither changed nor kept",
			run: func(e *checkRun) {
				b := e.newBatch()
				before := bytes.Clone(b.Payload)
				require.NoError(e, e.submit(b))
				assert.True(e, bytes.Equal(before, b.Payload), "Submit changed the payload")
				clear(b.Payload) // the race detector finds a client that still reads the payload
				e.requireBecomes(b, batch.ReportedCommitted)
			},
		},
		{
			Name:    "Slices/attempts",
			Promise: "the attempts that are asked about are neither changed nor kept",
			run: func(e *checkRun) {
				a, b := e.committedBatch(), e.committedBatch()
				attempts := []batch.Attempt{{Key: b.Key(), Number: 1}, {Key: a.Key(), Number: 1}}
				before := slices.Clone(attempts)
				statuses, err := e.Ledger.BatchStatuses(e.Context(), b.Service, attempts)
				require.NoError(e, err)
				assert.Equal(e, before, attempts)
				clear(attempts)
				assert.Len(e, e.statusesByID(statuses, a, b), 2)
			},
		},
	}
}
