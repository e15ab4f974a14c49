package postgres

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/internal/pgsettings"
	"github.com/dltbatch/dltbatch/store"
)

// A running process notices within a minute that somebody has migrated the schema further than its
// code allows: see [Store.Migrate].
func TestNewerSchemaWhileRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scriptedServer{answers: map[string][][]any{"to_regclass": {{true}}}}
		at := func(version int64) { server.answers["max(version_id)"] = [][]any{{version}} }
		s, _, err := Over(&server, nil)
		require.NoError(t, err)
		add := func(id batch.ID) error {
			return s.Add(t.Context(), batch.Batch{Service: "s", ID: id, Payload: []byte("a")})
		}
		at(schemaVersion)
		require.NoError(t, add("a"))
		at(schemaVersion + 1)
		time.Sleep(time.Minute)
		require.NoError(t, add("b"))
		at(schemaVersion + 2)
		time.Sleep(time.Minute)
		for range 2 {
			require.ErrorIs(t, add("c"), store.ErrNewerSchema)
			_, err = s.Get(t.Context(), batch.Key{Service: "s", ID: "a"})
			require.ErrorIs(t, err, store.ErrNewerSchema)
			tx := &scriptConn{server: &server}
			require.ErrorIs(t, s.addTx(t.Context(), tx, batch.Batch{Service: "s", ID: "d", Payload: []byte("a")}), store.ErrNewerSchema)
		}
		at(schemaVersion)
		require.NoError(t, add("c"))
		server.answers["SELECT false"] = [][]any{{false}}
		require.True(t, s.isFalse(t.Context(), "SELECT false"))
		time.Sleep(time.Minute)
		require.False(t, s.isFalse(t.Context(), "SELECT false"), "an idle store looks, too")
	})
}

// An application's transaction is not asked about the schema, because it may have other rights and
// an older snapshot, and says nothing about other transactions. It is asked for its settings each
// time, since its commit goes by them.
func TestAnApplicationsTransactionIsAskedForItsSettingsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := scriptedServer{answers: map[string][][]any{"to_regclass": {{true}}, "max(version_id)": {{int64(schemaVersion)}}}}
		s, _, err := Over(&server, nil)
		require.NoError(t, err)
		b := batch.Batch{Service: "s", ID: "a", Payload: []byte("a")}
		require.NoError(t, s.Add(t.Context(), b))
		time.Sleep(time.Minute)
		other := scriptedServer{answers: map[string][][]any{
			"to_regclass": {{true}}, "max(version_id)": {{int64(schemaVersion + 2)}}, "ON CONFLICT": {{int64(1)}},
		}}
		require.NoError(t, s.addTx(t.Context(), &scriptConn{server: &other}, b))
		for _, line := range pgsettings.For(pgsettings.Applications, false) {
			other.wrongSetting = line.Name
			err := s.addTx(t.Context(), &scriptConn{server: &other}, b)
			if line.Name == "session_replication_role" { // any other value than "replica" fits
				require.NoError(t, err)
				continue
			}
			var setting *SettingError
			require.ErrorAs(t, err, &setting, line.Name)
			require.Equal(t, line.Name, setting.Setting)
		}
		other.wrongSetting = ""
		require.NoError(t, s.addTx(t.Context(), &scriptConn{server: &other}, b))
	})
}
