package postgres

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
)

// violation is a driver's error that has the constraint's name in a field.
type violation struct{ State, ConstraintName string }

func (v *violation) Error() string    { return v.State }
func (v *violation) SQLState() string { return v.State }

// The name of the violated constraint says what a unique violation means.
func TestUniqueViolationsByName(t *testing.T) {
	s := &Store{names: names{prefix: "app_"}}
	for name, want := range map[string]struct{ careful, known, raced bool }{
		"app_batches_id":            {careful: true, known: true},
		"app_batches_change":        {careful: true, known: true},
		"app_batches_pkey":          {careful: true},
		"batches_id":                {},
		"one_signer":                {},
		"pg_type_typname_nsp_index": {raced: true},
		"":                          {careful: true, known: true, raced: true}, // the driver does not name the constraint
	} {
		s.fresh.doubts.Store(0)
		err := fmt.Errorf("add: %w", &violation{uniqueViolation, name})
		assert.Equal(t, want.careful, s.notFreshError(err), name)
		assert.Equal(t, want.known, s.fresh.doubts.Load() > 0, name)
		assert.Equal(t, want.raced, isMigrationRace(err), name)
	}
}
