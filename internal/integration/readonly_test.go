package integration

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
)

// serverName is an address by which clients know a server, as DNS provides it: new connections go
// to its present target, and old ones stay where they are.
type serverName struct {
	t        testing.TB
	listener net.Listener
	mu       sync.Mutex
	target   string
	conns    []net.Conn
}

func newServerName(t testing.TB, to string) *serverName {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &serverName{t: t, listener: l, target: to}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			n.mu.Lock()
			up, err := net.Dial("tcp", n.target)
			if err == nil {
				n.conns = append(n.conns, from, up)
			}
			n.mu.Unlock()
			if err != nil {
				_ = from.Close()
				continue
			}
			for _, way := range [...][2]net.Conn{{from, up}, {up, from}} {
				running.Go(func() {
					_, _ = io.Copy(way[0], way[1]) // one of the two ends first
					_ = way[0].Close()
				})
			}
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		n.cutConnections()
		running.Wait()
	})
	return n
}

func (n *serverName) addr() string { return n.listener.Addr().String() }

// redirect directs new connections to another server.
func (n *serverName) redirect(to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.target = to
}

// cutConnections ends all connections, as a server does when it stops.
func (n *serverName) cutConnections() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// useConnections uses some connections at once, so that the pool keeps several.
func useConnections(t *testing.T, st *testApp) {
	t.Helper()
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			_, _ = st.Counts(t.Context(), store.CountsQuery{Start: true, Limit: 10}) // the result does not matter
		})
	}
	calls.Wait()
}

// After a switch-over the name leads for a moment to the old server, which is now a standby, and
// the pool keeps connections to it. The store does not write there and does not read data that may
// be old. Once the name leads to the new server the store works again, without a restart or idle
// time.
func TestSwitchOver(t *testing.T) {
	primary := pgtest.NewCluster(t)
	standby := primary.Standby(t, "")
	for i, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			server := newServerName(t, primary.Addr())
			st := openApp(t, d, primary.DSN(server.addr()), &postgres.Options{Schema: "s_" + string('a'+rune(i))})
			require.NoError(t, st.Migrate(t.Context()))
			require.NoError(t, st.Add(t.Context(), newBatch("s", 1)))
			key := newBatch("s", 1).Key()

			server.redirect(standby.Addr())
			server.cutConnections()
			require.Eventually(t, func() bool { return errors.Is(st.Add(t.Context(), newBatch("s", 2)), postgres.ErrReadOnly) }, 10*time.Second, 10*time.Millisecond)
			useConnections(t, st)
			_, err := st.Get(t.Context(), key)
			require.ErrorIs(t, err, postgres.ErrReadOnly, "it may be old")
			_, err = st.Claim(t.Context(), store.ClaimQuery{Lanes: []batch.ServiceID{"s"}, Limit: 1, Window: 1, TTL: time.Minute}, pickFront)
			require.ErrorIs(t, err, postgres.ErrReadOnly)
			warnings, err := st.Upkeep(t.Context())
			require.NoError(t, err)
			require.Len(t, warnings, 1)
			assert.Equal(t, "read only", warnings[0].Name)
			assert.ErrorIs(t, warnings[0].Err, postgres.ErrReadOnly)

			server.redirect(primary.Addr())
			since := time.Now()
			require.Eventually(t, func() bool { return st.Add(t.Context(), newBatch("s", 3)) == nil }, 10*time.Second, 20*time.Millisecond)
			t.Logf("stored %s after the name led to a server that takes writes", time.Since(since))
			for range 8 {
				_, err := st.Get(t.Context(), key)
				require.NoError(t, err)
				require.NoError(t, st.Add(t.Context(), newBatch("s", 3)))
			}
			warnings, err = st.Upkeep(t.Context())
			require.NoError(t, err)
			assert.Empty(t, warnings)
		})
	}
}

// If the owner of a database, or its provider, makes it read-only, the store does not write,
// reports it, and continues by itself once writing is allowed. Reads work meanwhile.
func TestOwnerMakesItReadOnly(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			cluster := pgtest.NewCluster(t)
			st := openApp(t, d, cluster.DSN(""), nil)
			require.NoError(t, st.Migrate(t.Context()))
			require.NoError(t, st.Add(t.Context(), newBatch("s", 1)))
			owner := openAdmin(t, cluster.DSN(""))
			defer func() { require.NoError(t, owner.Close()) }()
			set := func(value string) {
				t.Helper()
				for _, text := range []string{`ALTER SYSTEM SET default_transaction_read_only = ` + value, `SELECT pg_reload_conf()`} {
					_, err := owner.ExecContext(t.Context(), text)
					require.NoError(t, err)
				}
			}
			set("on")
			require.Eventually(t, func() bool { return errors.Is(st.Add(t.Context(), newBatch("s", 2)), postgres.ErrReadOnly) }, 10*time.Second, 10*time.Millisecond)
			stored := func() (n int) {
				require.NoError(t, owner.QueryRowContext(t.Context(), `SELECT count(*) FROM dltbatch.batches`).Scan(&n))
				return n
			}
			before := stored() // an Add may have come before the reload
			require.ErrorIs(t, st.Add(t.Context(), newBatch("s", 3)), postgres.ErrReadOnly)
			_, err := st.Get(t.Context(), newBatch("s", 1).Key())
			require.NoError(t, err)
			lanes, err := st.Lanes(t.Context(), store.LanesQuery{Start: true, Limit: 9})
			require.NoError(t, err)
			assert.Len(t, lanes, 1)
			calls := map[string]func(ctx context.Context) error{
				"claim": func(ctx context.Context) error {
					_, err := st.Claim(ctx, store.ClaimQuery{Lanes: lanes, Limit: 1, Window: 1, TTL: time.Minute}, pickFront)
					return err
				},
				"steer": func(ctx context.Context) error {
					_, _, err := st.Steer(ctx, store.Steering{Action: batch.ActionPause, Scope: batch.Only("s"), By: batch.By{Actor: "ada", Reason: "r"}})
					return err
				},
				"keep an instance": func(ctx context.Context) error {
					return new(texts.Presence).Show(ctx, st, store.Instance{ID: "1", Name: "host"})
				},
			}
			for name, call := range calls {
				assert.ErrorIs(t, call(t.Context()), postgres.ErrReadOnly, name)
			}
			warnings, err := st.Upkeep(t.Context())
			require.NoError(t, err)
			require.Len(t, warnings, 1)
			assert.Equal(t, "read only", warnings[0].Name)
			assert.Equal(t, before, stored())

			set("off")
			require.Eventually(t, func() bool { return st.Add(t.Context(), newBatch("s", 2)) == nil }, 10*time.Second, 10*time.Millisecond)
			warnings, err = st.Upkeep(t.Context())
			require.NoError(t, err)
			assert.Empty(t, warnings)
		})
	}
}

// On a standby the command reads, says that the server is a standby, and changes nothing.
func TestCommandOnAStandby(t *testing.T) {
	primary := pgtest.NewCluster(t)
	st := openApp(t, pgx, primary.DSN(""), nil)
	require.NoError(t, st.Migrate(t.Context()))
	require.NoError(t, st.Add(t.Context(), newBatch("s", "b1"), newBatch("s", "b2"), newBatch("nobody's", "b3")))
	recordSettings(t, st, "s")
	require.NoError(t, new(texts.Presence).Show(t.Context(), st, store.Instance{ID: "1", Name: "host-7"}))
	_, err := texts.Refresh(t.Context(), st, store.RefreshQuery{})
	require.NoError(t, err)
	standby := primary.Standby(t, "")
	c := newTerminal(t, &testSpace{dsn: standby.DSN(""), schema: postgres.DefaultSchema})
	for _, args := range [][]string{
		{"status"}, {"causes"}, {"list"}, {"show", "b1"}, {"explain", "b2"}, {"lanes"}, {"instances"}, {"history"}, {"search", "b"},
		{"bulk", "list"}, {"settings", "s"}, {"migrate", "status"},
	} {
		out, _ := c.runCommand(0, args...)
		assert.NotEmpty(t, out, args)
	}
	c.runCommand(5, "explain", "b3") // no instance has taken batches of its lane, and the command records nothing
	assert.Contains(t, c.badFindings()["role of the server"], "standby")
	_, errs, code := c.output("pause", "s", "--reason", "r", "--actor", "ada")
	assert.NotZero(t, code)
	assert.Contains(t, errs, "takes no writes")
}

// recordSettings writes the settings of a Runner of a ledger, and that it serves a service.
func recordSettings(t *testing.T, st *testApp, service batch.ServiceID) {
	_, err := texts.Serve(t.Context(), st, []texts.Served{{Service: service, Ledger: "ledger"}})
	require.NoError(t, err)
	text, err := relied.Record{Settings: relied.SettingsOf(service, dlt.Traits{Name: "ledger"}, time.Minute, queuer.Serial())}.Text()
	require.NoError(t, err)
	_, err = texts.Put(t.Context(), st, store.Text{Kind: store.TextTraits, Name: "ledger", Body: text})
	require.NoError(t, err)
}
