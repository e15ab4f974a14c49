package sqlstore

import (
	"context"

	"github.com/dltbatch/dltbatch/batch"
)

// LoadOne is Load for the batch of a key. The error wraps batch.ErrNotFound if there is no such
// batch.
func LoadOne(ctx context.Context, t Tx, key batch.Key) (*Stored, int64, error) {
	n, err := seq(ctx, t, key)
	if err != nil {
		return nil, 0, err
	}
	found, now, err := t.Load(ctx, []int64{n})
	if err != nil {
		return nil, 0, err
	}
	if s := found[n]; s != nil {
		return s, now, nil
	}
	return nil, 0, notFound(key)
}
