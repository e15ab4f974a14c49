package integration

import (
	"context"
	"database/sql"
	"encoding/binary"
	"flag"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pgxlib "github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/dlt/memory"
	"github.com/dltbatch/dltbatch/internal/pgtest"
	"github.com/dltbatch/dltbatch/shards"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/postgres"
	"github.com/dltbatch/dltbatch/store/postgres/native"
)

var idleFor = flag.Duration("idle.time", 5*time.Second, "how long an idle Runner is watched")

// traffic counts the messages sent to a server.
type traffic struct {
	mu sync.Mutex
	messageCounts
}

type messageCounts struct {
	tripCount  int // messages that wait for an answer
	frameCount int // each BEGIN, SET, COMMIT and ROLLBACK
	workCount  int // all other statements
}

func (t *traffic) current() messageCounts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.messageCounts
}

func (t *traffic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, network, address)
	return &countingConn{Conn: c, traffic: t}, err
}

// Dial and DialTimeout implement pq.Dialer.
func (t *traffic) Dial(network, address string) (net.Conn, error) {
	return t.dial(context.Background(), network, address)
}

func (t *traffic) DialTimeout(network, address string, d time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return t.dial(ctx, network, address)
}

// countingConn is a connection that counts its messages to the server.
type countingConn struct {
	net.Conn
	traffic      *traffic
	hasBegun     bool // false for the first message, which has no kind
	unread       []byte
	frameNames   map[string]bool // names of prepared statements that are frames
	isBoundFrame bool            // the statement bound last is a frame
}

func (w *countingConn) Write(p []byte) (int, error) {
	w.unread = append(w.unread, p...)
	for {
		kind, head := byte(0), 0
		if w.hasBegun {
			head = 1
		}
		if len(w.unread) < head+4 {
			break
		}
		if w.hasBegun {
			kind = w.unread[0]
		}
		size := head + int(binary.BigEndian.Uint32(w.unread[head:]))
		if len(w.unread) < size {
			break
		}
		w.countMessage(kind, w.unread[head+4:size])
		w.unread, w.hasBegun = w.unread[size:], true
	}
	return w.Conn.Write(p)
}

// isFrame reports whether a statement begins or ends a transaction, or sets something in it.
func isFrame(statement string) bool {
	word, rest, _ := strings.Cut(strings.TrimSpace(statement), " ")
	if strings.HasPrefix(rest, "set_config(") {
		return true // the native driver's SET
	}
	return slices.Contains([]string{"BEGIN", "SET", "COMMIT", "ROLLBACK"}, strings.ToUpper(word))
}

// countMessage counts a message, and remembers which statements are frames.
func (w *countingConn) countMessage(kind byte, body []byte) {
	first, rest, _ := strings.Cut(string(body), "\x00")
	second, _, _ := strings.Cut(rest, "\x00")
	switch kind {
	case 'P': // Parse: the name, and the text
		if w.frameNames == nil {
			w.frameNames = map[string]bool{}
		}
		w.frameNames[first] = isFrame(second)
	case 'B': // Bind: the portal, and the name
		w.isBoundFrame = w.frameNames[second]
	}
	w.traffic.count(kind, body, w.isBoundFrame)
}

func (t *traffic) count(kind byte, body []byte, frame bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch kind {
	case 'Q': // Query: a text of statements
		t.tripCount++
		for s := range strings.SplitSeq(strings.TrimRight(string(body), "\x00"), ";") {
			switch s = strings.TrimSpace(s); {
			case s == "":
			case strings.HasPrefix(s, "--"):
				// pgx sends this to check a connection that was idle for a second, which happens
				// on a busy machine.
				t.tripCount--
			case isFrame(s):
				t.frameCount++
			default:
				t.workCount++
			}
		}
	case 'S': // Sync: ends a group of messages
		t.tripCount++
	case 'E': // Execute
		if frame {
			t.frameCount++
		} else {
			t.workCount++
		}
	}
}

// An idle Runner hardly uses the database: in total it sends at most two statements a second. It
// asks for lanes each second, which also serves the monitor. From time to time it looks for
// batches that another process left under way, writes its row, counts and prunes.
func TestIdleRunnerIsQuiet(t *testing.T) {
	t.Parallel()
	for _, d := range []driver{nativePool, libpq} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newSpace(t, d)
			s.exec(`DROP FUNCTION ` + s.schema + `.clock_timestamp()`)
			s.store()
			var seen traffic
			st := s.watchedStore(&seen)
			r, err := dltbatch.New(st, memory.New(nil), nil)
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			require.NoError(t, r.Add(ctx, newBatch("s", "a")))
			require.NoError(t, r.Idle(ctx))
			wait := time.NewTimer(time.Second) // the work for the batch itself is over
			<-wait.C
			before, from := seen.current(), time.Now()
			wait.Reset(*idleFor)
			<-wait.C
			after, seconds := seen.current(), time.Since(from).Seconds()
			stop()
			require.NoError(t, <-done)
			rate := func(before, after int) float64 { return float64(after-before) / seconds }
			t.Logf("a second: %.1f statements, %.1f more for their transactions, %.1f round trips",
				rate(before.workCount, after.workCount), rate(before.frameCount, after.frameCount), rate(before.tripCount, after.tripCount))
			// A short time may contain more than its share of what happens every 15 s or every
			// minute.
			const beats = 16
			assert.LessOrEqual(t, float64(after.workCount-before.workCount), 2*seconds+beats)
			// Finding nothing needs no transaction. With lib/pq a statement in a transaction takes
			// two round trips.
			const transactions = 6
			assert.LessOrEqual(t, float64(after.tripCount-before.tripCount), 2*seconds+beats+2*transactions*(1+seconds/15), "round trips")
		})
	}
}

// The idle Runners of a process with four shards in one database send no more than four single
// ones, and share one session for hints.
func TestIdleShardsAreQuiet(t *testing.T) {
	t.Parallel()
	const n = 4
	c, err := pgxpool.ParseConfig(pgtest.Start(t))
	require.NoError(t, err)
	var seen traffic
	c.ConnConfig.DialFunc = seen.dial
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	listen := native.ListenBeside(pool)
	var list []shard
	for i := range n {
		st, err := native.New(pool, &postgres.Options{Schema: shardSchema(t, pool, fmt.Sprint("idle", i)), Listen: listen, Shard: store.Shard{Set: "idle", Number: i, Of: n}})
		require.NoError(t, err)
		require.NoError(t, st.Migrate(t.Context()))
		list = append(list, shard{DB: pool, Store: st})
	}
	set, err := shards.New(func(s shard) (*dltbatch.Runner, error) { return dltbatch.New(s.Store, memory.New(nil), nil) }, list...)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- set.Run(ctx, nil) }()
	require.NoError(t, set.Idle(ctx))
	wait := time.NewTimer(time.Second)
	<-wait.C
	before, from := seen.current(), time.Now()
	wait.Reset(*idleFor)
	<-wait.C
	after, seconds := seen.current(), time.Since(from).Seconds()
	stop()
	require.NoError(t, <-done)
	rate := func(before, after int) float64 { return float64(after-before) / seconds / n }
	t.Logf("a second and shard: %.2f statements, %.2f more for their transactions, %.2f round trips",
		rate(before.workCount, after.workCount), rate(before.frameCount, after.frameCount), rate(before.tripCount, after.tripCount))
	const beats = 16
	assert.LessOrEqual(t, float64(after.workCount-before.workCount), n*(2*seconds+beats))
}

// watchedStore opens a store whose messages are counted.
func (s *testSpace) watchedStore(seen *traffic) store.Store {
	s.t.Helper()
	o := &postgres.Options{Schema: s.schema}
	var db *sql.DB
	switch {
	case s.driver.isPool:
		c, err := pgxpool.ParseConfig(s.dsn)
		require.NoError(s.t, err)
		c.ConnConfig.DialFunc = seen.dial
		p, err := pgxpool.NewWithConfig(s.t.Context(), c)
		require.NoError(s.t, err)
		s.t.Cleanup(p.Close)
		st, err := native.New(p, o)
		require.NoError(s.t, err)
		return st
	case s.driver.sqlName == "pgx":
		c, err := pgxlib.ParseConfig(s.dsn)
		require.NoError(s.t, err)
		c.DialFunc = seen.dial
		db = stdlib.OpenDB(*c)
	default:
		c, err := pq.NewConnector(s.dsn)
		require.NoError(s.t, err)
		c.Dialer(seen)
		db = sql.OpenDB(c)
	}
	s.t.Cleanup(func() { _ = db.Close() })
	st, err := postgres.New(db, o)
	require.NoError(s.t, err)
	return st
}
