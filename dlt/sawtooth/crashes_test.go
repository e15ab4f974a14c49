package sawtooth_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt/sawtooth"
	"github.com/dltbatch/dltbatch/dlt/sawtooth/sawtoothtest"
	"github.com/dltbatch/dltbatch/internal/tier"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// crashingNode is a node that is killed and started again, with the last batch that it was asked
// about.
type crashingNode struct {
	node *sawtoothtest.Node

	mu           sync.Mutex
	lastID       batch.ID
	lastAnswerAt time.Time // the first answer since the last start
	lastPostAt   time.Time // the last POST
	postCount    int
}

// newCrashingNode returns a node that makes its first block after the time block, when all crashes
// are over, and reports an accepted batch as PENDING after the time publish.
func newCrashingNode(t *testing.T, block, publish time.Duration) *crashingNode {
	c := &crashingNode{}
	var err error
	c.node, err = sawtoothtest.Listen(&sawtoothtest.Options{
		InMemory: true, BlockInterval: block, PublishDelay: publish, StartTime: 650 * time.Millisecond,
		Faults: &sawtoothtest.Faults{Request: func(p sawtoothtest.RequestPoint) sawtoothtest.Fault {
			c.mu.Lock()
			defer c.mu.Unlock()
			switch {
			case !slices.Contains(p.Batches, c.lastID):
			case p.Operation == sawtoothtest.OpSubmit:
				c.lastPostAt, c.postCount = time.Now(), c.postCount+1
			case p.Operation == sawtoothtest.OpStatuses && c.lastAnswerAt.IsZero():
				c.lastAnswerAt = time.Now()
			}
			return sawtoothtest.Fault{}
		}},
	})
	require.NoError(t, err)
	t.Cleanup(c.node.Close)
	return c
}

// killAndRestart kills the node, and starts it again after the time down.
func (c *crashingNode) killAndRestart(t *testing.T, down time.Duration) {
	c.node.Stop()
	c.node.Restart()
	time.Sleep(down)
	c.mu.Lock()
	c.lastAnswerAt = time.Time{}
	c.mu.Unlock()
	require.NoError(t, c.node.Resume())
}

func (c *crashingNode) lastTimes() (answered, posted time.Time, posts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastAnswerAt, c.lastPostAt, c.postCount
}

// waitForPosts waits until the batch was posted posts times.
func (c *crashingNode) waitForPosts(t *testing.T, posts int) {
	for range 3600 {
		if _, _, n := c.lastTimes(); n >= posts {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("it was not posted %d times", posts)
}

// startRunner runs a Runner on the node, and adds the batches.
func (c *crashingNode) startRunner(t *testing.T, st store.Store, o *sawtooth.Options, batches []batch.Batch) (r *dltbatch.Runner, stop func()) {
	return c.startRunnerWith(t, st, o, nil, batches)
}

// startRunnerWith is start with options of the Runner.
func (c *crashingNode) startRunnerWith(t *testing.T, st store.Store, o *sawtooth.Options, options *dltbatch.Options, batches []batch.Batch) (r *dltbatch.Runner, stop func()) {
	o.Client = c.node.Client()
	r, err := dltbatch.New(st, newClient(t, "http://node", o), options)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	require.NoError(t, r.Add(ctx, batches...))
	return r, func() { cancel(); require.NoError(t, <-done) }
}

func laneOfBatches(t *testing.T, names ...string) (all []batch.Batch) {
	for _, name := range names {
		all = append(all, settingBatch(t, name))
	}
	return all
}

// TestTenCrashesDuringOneBatch shows that a batch which was PENDING, and of which the node has no
// trace after a crash, is sent again as soon as Grace is over, however often that happens.
func TestTenCrashesDuringOneBatch(t *testing.T) {
	tier.Plain(t)
	for name, o := range map[string]sawtooth.Options{"told of blocks": {}, "asked only": {NoEvents: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := laneOfBatches(t, "a", "b", "c")
				c := newCrashingNode(t, 20*time.Minute, time.Second)
				c.lastID = all[0].ID
				r, stop := c.startRunner(t, memory.New(), &o, all)
				var longest time.Duration
				for n := range 10 {
					c.waitForPosts(t, n+1)
					time.Sleep([]time.Duration{3 * time.Second, 20 * time.Second, 90 * time.Second}[n%3])
					c.killAndRestart(t, []time.Duration{time.Second, 40 * time.Second}[n%2])
					c.waitForPosts(t, n+2)
					answered, posted, _ := c.lastTimes()
					longest = max(longest, posted.Sub(answered))
				}
				t.Logf("worst: sent again %s after the node's first answer", longest)
				assert.LessOrEqual(t, longest, sawtooth.DefaultGrace+time.Second, "Grace and a poll")
				require.NoError(t, r.Idle(t.Context()))
				stop()
				assert.Equal(t, []batch.ID{all[0].ID, all[1].ID, all[2].ID}, c.node.Chain(), "in order, each once")
				_, _, posts := c.lastTimes()
				assert.Equal(t, 11, posts)
			})
		})
	}
}

// If no process has seen an attempt as PENDING, the node may still remember it: a batch that waits
// for a dependency is UNKNOWN. The batch is then sent again only after ResendQuiet.
func TestCrashesWithoutAPendingAnswerWaitForResendQuiet(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		all := laneOfBatches(t, "a")
		c := newCrashingNode(t, 45*time.Minute, 10*time.Second)
		c.lastID = all[0].ID
		r, stop := c.startRunner(t, memory.New(), &sawtooth.Options{}, all)
		for n := range 2 {
			c.waitForPosts(t, n+1)
			_, before, _ := c.lastTimes()
			time.Sleep(5 * time.Second) // the batch is not PENDING yet
			c.killAndRestart(t, time.Second)
			c.waitForPosts(t, n+2)
			_, after, _ := c.lastTimes()
			if n == 0 {
				assert.Less(t, after.Sub(before), 2*sawtooth.DefaultGrace, "the first resend needs no proof")
			} else {
				assert.GreaterOrEqual(t, after.Sub(before), sawtooth.DefaultResendQuiet)
			}
		}
		require.NoError(t, r.Idle(t.Context()))
		stop()
		assert.Equal(t, []batch.ID{all[0].ID}, c.node.Chain())
	})
}

// What one process has seen of a batch is known to the next process.
func TestAnotherProcessKnowsWhatWasSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := laneOfBatches(t, "a")
		c := newCrashingNode(t, 7*time.Minute, time.Second)
		c.lastID = all[0].ID
		st := memory.New()
		for n := range 4 {
			_, stop := c.startRunner(t, st, &sawtooth.Options{}, all)
			c.waitForPosts(t, n+1)
			time.Sleep(5 * time.Second)
			stop()
			c.killAndRestart(t, time.Second)
		}
		r, stop := c.startRunner(t, st, &sawtooth.Options{}, all)
		c.waitForPosts(t, 5)
		answered, posted, _ := c.lastTimes()
		assert.LessOrEqual(t, posted.Sub(answered), sawtooth.DefaultGrace+time.Second)
		require.NoError(t, r.Idle(t.Context()))
		stop()
		assert.Equal(t, []batch.ID{all[0].ID}, c.node.Chain())
	})
}

// A node is lost at the moment when its acceptance of a resend is written. The node had shown that
// resend before, so the next resend does not wait for ResendQuiet.
func TestACrashAtTheAcceptanceOfAResend(t *testing.T) {
	for name, o := range map[string]sawtooth.Options{"told of blocks": {}, "asked only": {NoEvents: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := laneOfBatches(t, "a")
				c := newCrashingNode(t, 10*time.Minute, -1)
				c.lastID = all[0].ID
				crashed := make(chan struct{})
				var once sync.Once
				r, stop := c.startRunnerWith(t, memory.New(), &o, &dltbatch.Options{Observer: batch.ObserverFunc(func(_ context.Context, e batch.Event) {
					if e.Key.ID == c.lastID && e.Kind == batch.EventState && e.State == batch.Pending && e.Attempt == 2 {
						once.Do(func() {
							c.node.Stop()
							c.node.Restart()
							close(crashed)
						})
					}
				})}, all)
				c.waitForPosts(t, 1)
				time.Sleep(5 * time.Second)
				c.killAndRestart(t, time.Second)
				<-crashed
				_, before, _ := c.lastTimes()
				require.NoError(t, c.node.Resume())
				c.waitForPosts(t, 3)
				_, after, _ := c.lastTimes()
				assert.LessOrEqual(t, after.Sub(before), sawtooth.DefaultGrace+2*time.Second)
				require.NoError(t, r.Idle(t.Context()))
				stop()
				assert.Equal(t, []batch.ID{all[0].ID}, c.node.Chain())
			})
		})
	}
}

// One batch was PENDING after another one was posted, and is UNKNOWN later: the node was
// restarted. So the node remembers no batch that was posted before, whether it was seen or not.
func TestOneBatchShowsForAllThatTheNodeWasStartedAnew(t *testing.T) {
	tier.Plain(t)
	synctest.Test(t, func(t *testing.T) {
		all := laneOfBatches(t, "a", "b")
		all[1].Service = "another lane"
		c := newCrashingNode(t, 45*time.Minute, 10*time.Second)
		c.lastID = all[0].ID
		r, stop := c.startRunner(t, memory.New(), &sawtooth.Options{}, all[:1])
		c.waitForPosts(t, 1)
		time.Sleep(5 * time.Second)
		c.killAndRestart(t, time.Second)
		time.Sleep(30 * time.Second)
		require.NoError(t, r.Add(t.Context(), all[1]))
		c.waitForPosts(t, 2)
		_, before, _ := c.lastTimes()
		time.Sleep(5 * time.Second) // the other batch is PENDING, and the resend is not yet
		c.killAndRestart(t, time.Second)
		c.waitForPosts(t, 3)
		_, after, _ := c.lastTimes()
		assert.LessOrEqual(t, after.Sub(before), sawtooth.DefaultGrace+2*time.Second)
		require.NoError(t, r.Idle(t.Context()))
		stop()
		assert.ElementsMatch(t, []batch.ID{all[0].ID, all[1].ID}, c.node.Chain())
	})
}

// A process that is restarted every half a minute sends a lost batch again as soon as a process
// that keeps running: the next process goes on with the wait of the one before.
func TestRestartsOfTheProcessDelayNoResend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := laneOfBatches(t, "a")
		c := newCrashingNode(t, 7*time.Minute, time.Second)
		c.lastID = all[0].ID
		st := memory.New()
		_, stop := c.startRunner(t, st, &sawtooth.Options{}, all)
		c.waitForPosts(t, 1)
		time.Sleep(5 * time.Second)
		stop()
		c.killAndRestart(t, time.Second)
		_, before, _ := c.lastTimes()
		for range 20 {
			if _, _, n := c.lastTimes(); n > 1 {
				break
			}
			_, stop := c.startRunner(t, st, &sawtooth.Options{}, all)
			time.Sleep(30 * time.Second)
			stop()
		}
		_, after, posts := c.lastTimes()
		require.Equal(t, 2, posts)
		assert.LessOrEqual(t, after.Sub(before), sawtooth.DefaultGrace+2*time.Second)
		r, stop := c.startRunner(t, st, &sawtooth.Options{}, all)
		require.NoError(t, r.Idle(t.Context()))
		stop()
		assert.Equal(t, []batch.ID{all[0].ID}, c.node.Chain())
	})
}
