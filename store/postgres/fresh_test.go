package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgsettings"
	"github.com/dltbatch/dltbatch/internal/sqlstore"
	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// scriptedServer is a server that assigns the numbers 1, 1001 and so on, at the time 5. It answers
// each other query by a part of the query's text.
type scriptedServer struct {
	conns.Pool
	numberCalls  int64
	commitErrs   []error // the errors of the next commits
	answers      map[string][][]any
	session      conns.Session // the session of the only connection
	wrongSetting string        // the name of the setting whose value does not fit
	// database is the name of the database. single is true if the pool has one connection.
	database    string
	hasOneConn  bool
	serverStart string // the time at which the server was started; "" stands for a time in 2023
}

// settings returns some texts and the values of a list of settings. All values fit, except that of
// s.wrongSetting.
func (s *scriptedServer) settings(k pgsettings.Kind, have ...string) *scriptRows {
	for _, line := range pgsettings.For(k, false) {
		if line.Name == s.wrongSetting {
			have = append(have, "off")
		} else {
			have = append(have, line.Want)
		}
	}
	list := make([][]any, len(have))
	for i, text := range have {
		list[i] = []any{text}
	}
	return rowsOf(list)
}

func (s *scriptedServer) Acquire(context.Context) (conns.Conn, error) {
	return &scriptConn{server: s}, nil
}
func (s *scriptedServer) Unsent(error) bool { return false }
func (s *scriptedServer) Single() bool      { return s.hasOneConn }

func (s *scriptedServer) startTime() string { return cmp.Or(s.serverStart, "1700000000.5") }

type scriptConn struct {
	conns.Conn
	server *scriptedServer
}

func (c *scriptConn) Begin(context.Context, string) error { return nil }
func (c *scriptConn) Begun() bool                         { return true }
func (c *scriptConn) Session() *conns.Session             { return &c.server.session }
func (c *scriptConn) Release()                            {}
func (c *scriptConn) Discard(context.Context)             {}

func (c *scriptConn) Together(ctx context.Context, list ...conns.Statement) error {
	return conns.InTurn(ctx, c, list)
}

func (c *scriptConn) Exec(_ context.Context, text string, _ ...any) (int64, error) {
	if text != conns.Commit || len(c.server.commitErrs) == 0 {
		return 0, nil
	}
	err := c.server.commitErrs[0]
	c.server.commitErrs = c.server.commitErrs[1:]
	return 0, err
}

func (c *scriptConn) Query(_ context.Context, text string, _ ...any) (sqlstore.Rows, error) {
	switch {
	case strings.Contains(text, "nextval"):
		c.server.numberCalls++
		return rowsOf([][]any{{"kind", "n"}, {0, int64(5)}, {2, 1000*c.server.numberCalls - 999}}), nil
	case strings.Contains(text, "transaction_isolation"):
		return c.server.settings(pgsettings.Applications, "read committed", "auto", c.server.startTime(), c.server.database), nil
	case strings.Contains(text, "pg_is_in_recovery"):
		return c.server.settings(pgsettings.Own, "false", c.server.startTime(), c.server.database), nil
	}
	for part, rows := range c.server.answers {
		if strings.Contains(text, part) {
			return rowsOf(rows), nil
		}
	}
	return rowsOf(nil), nil
}

type scriptRows struct {
	names []string
	list  [][]any
	row   []any
}

// rowsOf returns rows of one value each. If the first row has several values, these are the names
// of the columns.
func rowsOf(list [][]any) *scriptRows {
	r := &scriptRows{list: list}
	if len(list) > 0 && len(list[0]) > 1 {
		for _, name := range list[0] {
			r.names = append(r.names, name.(string))
		}
		r.list = list[1:]
	}
	return r
}

func (r *scriptRows) Columns() ([]string, error) { return r.names, nil }

func (r *scriptRows) Next() bool {
	if len(r.list) == 0 {
		return false
	}
	r.row, r.list = r.list[0], r.list[1:]
	return true
}

func (r *scriptRows) Scan(dest ...any) error {
	for i, d := range dest {
		switch d := d.(type) {
		case *int:
			*d = r.row[i].(int)
		case *int64:
			*d = r.row[i].(int64)
		case *string:
			*d = r.row[i].(string)
		case *bool:
			*d = r.row[i].(bool)
		case *[]byte:
			*d = r.row[i].([]byte)
		}
	}
	return nil
}

func (r *scriptRows) Err() error   { return nil }
func (r *scriptRows) Close() error { return nil }

type stateError string

func (e stateError) Error() string    { return string(e) }
func (e stateError) SQLState() string { return string(e) }

// A claim of this process finds in memory the batches that an Add has stored. It finds no batch of
// a transaction that failed, may have failed or is the application's, and no batch that was not
// stored.
func TestOnlyWhatIsStoredIsHeld(t *testing.T) {
	z := batch.Batch{Service: "s", ID: "z", Payload: []byte("z")}
	b := batch.Batch{Service: "s", ID: "b", Payload: []byte("b")}
	hash := z.Hash()
	known := [][]any{{"n", "header_signature", "service_id", "payload_hash"}, {int64(1), "z", "s", hash[:]}}
	lost := errors.New("lost")
	for name, c := range map[string]struct {
		script scriptedServer
		add    func(s *Store) error
		err    error
		want   []string // the ids that are kept, with their numbers and order keys
	}{
		"all":                         {want: []string{"b 1 6", "z 2 5"}},
		"a commit without an answer":  {script: scriptedServer{commitErrs: []error{lost}}, err: lost},
		"a commit that is tried anew": {script: scriptedServer{commitErrs: []error{stateError(serializationFailure)}}, want: []string{"b 1001 6", "z 1002 5"}},
		"one is known": {
			script: scriptedServer{answers: map[string][][]any{"ON CONFLICT": {{int64(1)}}, "u (id_hash, n)": known}},
			add:    func(s *Store) error { s.freshness.noteKnown(); return s.Add(t.Context(), z, b) }, want: []string{"b 1 6"},
		},
		"one was removed": {
			script: scriptedServer{answers: map[string][][]any{"EXISTS": {{true}}, "p.header_signature": {
				{"n", "header_signature", "service_id", "payload_hash", "pruned_at", "state"},
				{int64(2), "z", "s", hash[:], int64(9), int64(batch.Committed)},
			}}},
			want: []string{"b 1 6"},
		},
		"twins": {
			script: scriptedServer{answers: map[string][][]any{"u (id_hash, n)": known}},
			add: func(s *Store) error {
				x, y := z, b
				x.DataChangeID, y.DataChangeID, y.Payload = "change", "change", x.Payload
				return s.Add(t.Context(), x, y)
			}, want: []string{"z 1 5"},
		},
		"of an application": {add: func(s *Store) error {
			return s.addTx(t.Context(), &scriptConn{server: &scriptedServer{answers: map[string][][]any{"ON CONFLICT": {{int64(1)}, {int64(2)}}}}}, z, b)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := Over(&c.script, nil)
			require.NoError(t, err)
			soon := time.Now().Add(time.Minute)
			s.schemaCheckedUntil.Store(&soon)
			if c.add == nil {
				c.add = func(s *Store) error { return s.Add(t.Context(), z, b) }
			}
			require.ErrorIs(t, c.add(s), c.err)
			var held []string
			for seq := range int64(3000) {
				for at := range int64(9) {
					if f, ok := s.addedBatches.Of(seq, at); ok {
						held = append(held, fmt.Sprint(f.ID, " ", seq, " ", at))
					}
				}
			}
			assert.Equal(t, c.want, held)
		})
	}
}
