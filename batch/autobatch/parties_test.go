package autobatch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/batch"
)

// A pause does not end a longer one, such as the pause of a party that has failed often.
func TestTheLongerPauseCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := parties{options: &Options{}, byParty: map[batch.ServiceID]*partyState{}}
		a.pause("p", time.Hour)
		a.pause("p", time.Minute)
		assert.Equal(t, time.Hour, a.take("p"))
		a.pause("p", 2*time.Hour)
		assert.Equal(t, 2*time.Hour, a.take("p"))
	})
}
