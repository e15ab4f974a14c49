package sim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	ledgermem "github.com/dltbatch/dltbatch/dlt/memory"
)

// stateAfter executes batches one after the other, each with the widest effect that it may have: a
// batch reads all addresses that it declares, and writes the result, with its own name, to all of
// them. A batch that declares nothing reads and writes everything.
func stateAfter(log []batch.ID, declared map[batch.ID]batch.Footprint) map[string]string {
	state := map[string]string{}
	for _, id := range log {
		f := declared[id]
		under := func(prefixes []string, address string) bool {
			for _, p := range prefixes {
				if strings.HasPrefix(address, p) {
					return true
				}
			}
			return f.Empty()
		}
		var all []string
		sum := fnv.New64a()
		for _, a := range "abcd" {
			for _, b := range "0123" {
				all = append(all, string([]rune{a, b}))
			}
		}
		for _, a := range all {
			if under(f.Reads, a) {
				fmt.Fprint(sum, a, "=", state[a], ";")
			}
		}
		for _, a := range all {
			if under(f.Writes, a) {
				state[a] = fmt.Sprintf("%s after %x", id, sum.Sum64())
			}
		}
	}
	return state
}

// checkSameState checks that the ledger's state is the same as after executing all batches one by
// one in the order in which they were added, whatever the order of execution was. It returns the
// number of lanes that were executed in another order.
func (l *laneSetup) checkSameState(t *testing.T, ledger *ledgermem.Ledger, order map[batch.ServiceID][]batch.ID) (differ int) {
	for service, ids := range order {
		log := ledger.Log(service)
		ids = slices.DeleteFunc(slices.Clone(ids), func(id batch.ID) bool { return !slices.Contains(log, id) }) // such a batch was invalid, and had no effect
		require.ElementsMatch(t, ids, log, "promise 3")
		require.Equal(t, stateAfter(ids, l.footprints), stateAfter(log, l.footprints), "promise 2: lane %q of %v\nexecuted as %v\n%v", service, ids, log, l.footprints)
		if !slices.Equal(ids, log) {
			differ++
		}
	}
	return differ
}
