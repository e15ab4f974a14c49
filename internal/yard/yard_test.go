package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/internal/pgtest"
)

func TestMain(m *testing.M) {
	if asChild() {
		return
	}
	os.Exit(pgtest.Main(m))
}

// Every contender delivers all of its batches, once, and in the order of their lanes if it
// promises that: else it ends with an error.
func TestModes(t *testing.T) {
	t.Setenv(pgtest.Variable, pgtest.Start(t)) // the test wants no figures: durability does not matter
	var out strings.Builder
	tried := "pgx,sqlite-full,lists,memory,held-parallel,held-novacuum,held-bloated,held-river"
	o := options{modes: tried, n: 48, lanes: 6, rounds: 1, idle: time.Millisecond, limit: 2 * time.Minute, hold: 500 * time.Millisecond, pace: 200}
	require.NoError(t, measure(t.Context(), o, &out), "%s", &out)
	for name := range strings.SplitSeq(tried, ",") {
		require.Contains(t, out.String(), "\n"+name+": ")
	}
}
