package storetest

import (
	"fmt"
	"sync"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func ledgerTests() []test {
	return []test{
		{name: "the name is recorded once", run: ledgerOnce},
		{name: "one of several wins", run: ledgerRace},
	}
}

func ledgerOnce(f *fixture) {
	for _, name := range []string{"sawtooth 1", "another", "sawtooth 1"} {
		got, err := f.st.Ledger(f.ctx, name)
		require.NoError(f, err)
		assert.Equal(f, "sawtooth 1", got)
	}
}

func ledgerRace(f *fixture) {
	var wg sync.WaitGroup
	names, errs := make([]string, 8), make([]error, 8)
	for i := range names {
		wg.Go(func() { names[i], errs[i] = f.st.Ledger(f.ctx, fmt.Sprint("ledger ", i)) })
	}
	wg.Wait()
	for i := range names {
		require.NoError(f, errs[i])
		assert.Equal(f, names[0], names[i])
	}
	assert.Contains(f, names[0], "ledger ")
}
