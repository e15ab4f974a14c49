package sqlstore

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/store"
)

// The statement that counts refused orders counts those of the last store.RefusedFor.
func TestRefusedOrdersCountForADay(t *testing.T) {
	assert.Equal(t, refusedOrdersPeriod, strconv.FormatInt(store.RefusedFor.Microseconds(), 10))
}
