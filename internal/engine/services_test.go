package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
)

// namedLedger is a ledger with a name that counts how often it is asked for its traits.
type namedLedger struct {
	dlt.Ledger
	traitsCalls int
}

func (l *namedLedger) Traits(batch.ServiceID) dlt.Traits {
	l.traitsCalls++
	return dlt.Traits{Name: "named"}
}

// A process that holds very many services, because another process serves them, still remembers
// the services that it serves. Otherwise each claim and each batch would ask about those again.
func TestManyHeldServicesLeaveRoomForTheServed(t *testing.T) {
	l := &namedLedger{}
	v := newServices(l, nil)
	for i := range maxServices {
		v.storeJudgement(batch.ServiceID(fmt.Sprint("held", i)), dlt.Traits{Name: "other"}, errors.New("held"))
	}
	for range 3 {
		for i := range 100 {
			_, err := v.knownTerms(batch.ServiceID(fmt.Sprint("served", i)))
			require.NoError(t, err)
		}
	}
	assert.Equal(t, 100, l.traitsCalls)
	for i := range 4 * maxServices {
		_, err := v.knownTerms(batch.ServiceID(fmt.Sprint("more", i)))
		require.NoError(t, err)
	}
	assert.LessOrEqual(t, len(v.byService), 2*maxServices, "the served ones are bounded")
}
