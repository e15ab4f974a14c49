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
	for name, want := range map[string]struct{ isDoubted, isKnown, isRaced bool }{
		"app_batches_id":            {isDoubted: true, isKnown: true},
		"app_batches_change":        {isDoubted: true, isKnown: true},
		"app_batches_pkey":          {isDoubted: true},
		"batches_id":                {},
		"one_signer":                {},
		"pg_type_typname_nsp_index": {isRaced: true},
		"":                          {isDoubted: true, isKnown: true, isRaced: true}, // the driver does not name the constraint
	} {
		s.freshness.carefulLeft.Store(0)
		err := fmt.Errorf("add: %w", &violation{uniqueViolation, name})
		assert.Equal(t, want.isDoubted, s.notFreshError(err), name)
		assert.Equal(t, want.isKnown, s.freshness.carefulLeft.Load() > 0, name)
		assert.Equal(t, want.isRaced, isMigrationRace(err), name)
	}
}
