package sqlstore

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/dltbatch/dltbatch/store"
)

// The statement that counts refused orders goes back as far as the contract says.
func TestRefusedOrdersCountForADay(t *testing.T) {
	assert.Equal(t, refusedFor, strconv.FormatInt(store.RefusedFor.Microseconds(), 10))
}
