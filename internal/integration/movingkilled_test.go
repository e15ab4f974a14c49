package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/moving"
	"github.com/dltbatch/dltbatch/internal/tier"
)

// The command moves a schema with a history under load, and is killed again and again, at random
// times.
func TestMovingKilled(t *testing.T) {
	tier.Soak(t, "TestMovingUnderLoad interrupts every step, in one process; this kills the command's process, many times")
	program := buildCommand(t)
	for round := range 2 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := newSchemaMove(t)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			r.addHistory(20_000)
			var runners, adders errgroup.Group
			for server := range 2 {
				runners.Go(func() error { return r.runRunners(ctx, server) })
			}
			for l := range 10 {
				adders.Go(func() error { return r.addUntilMoved(ctx, fmt.Sprint("lane ", l)) })
			}
			waitFor(t, func() bool { return r.queryNumber(0, `SELECT count(*) FROM `+r.schema+`.outcomes`) > 1000 })
			kills := 0
			var out []byte
			for {
				cmd := exec.Command(program, "move", "run", "--yes", "--json", "--schema", r.schema) //nolint:gosec // a program that the test built
				cmd.Env = append(os.Environ(), "DLTBATCH_DSN="+r.dsns[0], "DLTBATCH_TO_DSN="+r.dsns[1])
				killer := time.AfterFunc(time.Duration(rand.IntN(300+50*kills))*time.Millisecond, func() { _ = cmd.Process.Kill() })
				var err error
				out, err = cmd.Output()
				if killer.Stop(); err == nil {
					break
				}
				require.Equal(t, -1, cmd.ProcessState.ExitCode(), "%v", err) // the process was killed
				kills++
			}
			var last moving.Standing
			require.NoError(t, json.Unmarshal(out, &last))
			require.NoError(t, adders.Wait())
			r.checkAllMoved(1)
			stop()
			require.NoError(t, runners.Wait())
			t.Logf("%d kills; the lanes stood for %s; %d calls on the old server, %d on the new one, %d refused",
				kills, last.StandingTime, r.callsByServer[0], r.callsByServer[1], len(r.refusedKeys))
		})
	}
}

// addHistory adds batches, in lanes of their own, for a Runner to deliver.
func (r *schemaMove) addHistory(n int) {
	r.Helper()
	const call = 1000
	for i := range n / call {
		bs := make([]batch.Batch, call)
		for k := range bs {
			bs[k] = newBatch(fmt.Sprintf("old %d", i*10+k%10), fmt.Sprint("old ", i*call+k))
			r.acknowledged[bs[k].Service] = append(r.acknowledged[bs[k].Service], bs[k].ID)
		}
		require.NoError(r, r.stores[0].Add(r.Context(), bs...))
	}
}
