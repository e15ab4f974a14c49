package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Two claims find a loss at once: the second one fails as the first did, though that has told of it.
func TestClaimsThatFindALossTogether(t *testing.T) {
	s, _, err := Over(&script{}, &Options{PauseOnLostCommits: true})
	require.NoError(t, err)
	s.witnessed.prove([]string{"batch s/a is gone"}, time.Now(), true)
	found := s.witnessed.news()
	s.witnessed.told()
	require.ErrorIs(t, s.report(t.Context(), found), ErrLostCommits)
}
