package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/internal/relied"
	"github.com/dltbatch/dltbatch/internal/texts"
	"github.com/dltbatch/dltbatch/queuer"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/memory"
)

// badFindings returns the bad findings of doctor, by the name of the check.
func (s *testCommand) badFindings() map[string]doctorFinding {
	s.Helper()
	got := s.runWithInput("", "doctor", "--json")
	var d diagnosis
	require.NoError(s, json.Unmarshal([]byte(got.out), &d), got.err)
	found := map[string]doctorFinding{}
	for _, f := range d.Findings {
		if !f.OK {
			assert.NotEmpty(s, f.Do, "%s: what to do?", f.Check)
			found[f.Check] = f
		} else {
			assert.Empty(s, f.Do, f.Check)
		}
	}
	assert.Equal(s, d.OK, len(found) == 0)
	assert.Equal(s, map[bool]int{true: exitDone, false: exitLeft}[d.OK], got.code, got.err)
	return found
}

// A correct set-up has no bad finding, and each fault has its own.
func TestDoctor(t *testing.T) {
	inStores(t, func(s *testCommand) {
		assert.Contains(s, s.badFindings(), "no_instance", "nobody runs")
		one := store.Instance{ID: "1", Name: "host-7", Version: "v0.1.0", Ledger: "ledger"}
		require.NoError(s, new(texts.Presence).Show(s.Context(), s.st, one))
		s.recordServing("s")
		s.add("s", "b1", "b2")
		assert.Empty(s, s.badFindings())
		assert.Regexp(s, `(?m)^ok +hints +heard with this data source name \(in(otify on the write-ahead log| memory)\)$`, s.runOK("doctor"))

		two := one
		two.ID, two.Version = "2", "v0.2.0"
		require.NoError(s, new(texts.Presence).Show(s.Context(), s.st, two))
		require.Eventually(s, func() bool { // SQLite's clock advances by milliseconds
			require.NoError(s, new(texts.Presence).Show(s.Context(), s.st, one))
			kept, err := texts.Stats(s.Context(), s.st)
			require.NoError(s, err)
			return kept.Instances[0].Shared
		}, time.Minute, time.Millisecond)
		found := s.badFindings()
		assert.Contains(s, found, "versions")
		assert.Contains(s, found["names of instances"].Found, "host-7")
		assert.Len(s, found, 2)
		_, err := texts.Put(s.Context(), s.st, store.Text{Kind: store.TextInstance, Name: two.ID})
		require.NoError(s, err)

		other := relied.SettingsOf("s", dlt.Traits{Name: "ledger", ResendQuiet: time.Hour}, time.Minute, queuer.Serial())
		text, err := relied.Record{Settings: relied.SettingsOf("s", dlt.Traits{Name: "ledger"}, time.Minute, queuer.Serial()), Other: &other}.Text()
		require.NoError(s, err)
		_, err = texts.Put(s.Context(), s.st, store.Text{Kind: store.TextTraits, Name: "ledger", Body: text})
		require.NoError(s, err)
		s.runOK("policy", "s", "halt", "--reason", "r")
		s.endAttempt("s", store.Refused)
		found = s.badFindings()
		assert.Contains(s, found["settings of instances"].Found, `"ledger"`)
		assert.Equal(s, "dltbatch release s --reason WHY", remedyCommandOf(found["halted"].Do))
		assert.Len(s, found, 2)
		assert.Contains(s, s.runWithInput("", "doctor").out, "dltbatch agree SERVICE")
	})
}

// doctor works with a database that has no tables yet.
func TestDoctorWithoutTables(t *testing.T) {
	s := newFile(t)
	s.dsn = filepath.Join(t.TempDir(), "empty.db")
	require.NoError(t, os.WriteFile(s.dsn, nil, 0o600))
	found := s.badFindings()
	assert.Contains(t, found["schema"].Do, "migrate up")
	assert.Len(t, found, 1)
}

// remedyCommandOf returns the command that the remedy do contains.
func remedyCommandOf(do string) string {
	_, c, _ := strings.Cut(do, "$ ")
	return c
}

// doctor reports a pause, with its age and the person.
func TestDoctorFindsPauses(t *testing.T) {
	st := memory.New()
	s := &testCommand{T: t, st: st}
	s.runOK("pause", "s", "--reason", "for a moment", "--yes")
	st.StepClock(25 * time.Hour)
	assert.Regexp(t, `^1 lane is paused\. Since .*, for 1d01h\. By ada: for a moment\.$`, s.badFindings()["paused"].Found)
	s.runOK("pause", "--all", "--reason", "for the night", "--yes")
	f := s.badFindings()["paused"]
	assert.Regexp(t, `^Everything is paused\. Since .* By ada: for the night\.$`, f.Found)
	assert.Equal(t, "dltbatch resume --all --reason WHY", remedyCommandOf(f.Do))
}

// deafStore is a store that delivers no hints.
type deafStore struct{ store.Store }

func (deafStore) Hear(context.Context, store.Listener) error { return store.ErrUnsupported }

// doctor says that no hints arrive, and that this is no fault.
func TestDoctorHearsNothing(t *testing.T) {
	s := &testCommand{T: t, st: deafStore{memory.New()}}
	got := s.runWithInput("", "doctor")
	assert.Regexp(t, `(?m)^ok +hints +not heard with this data source name \(.+\)`, got.out)
}
