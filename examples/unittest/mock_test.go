package main

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/mock/gomock"

	"github.com/dltbatch/dltbatch"
	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/dlt"
	"github.com/dltbatch/dltbatch/dlt/dltmock"
	"github.com/dltbatch/dltbatch/store/memory"
	"github.com/dltbatch/dltbatch/store/storemock"
)

// TestDatabaseDown sets what the service is answered. A generated mock is the shortest way to a
// failure that a fake does not have. The service needs only Add and Get, so the mock of a small
// interface suffices, without a Runner or a ledger.
func TestDatabaseDown(t *testing.T) {
	queue := storemock.NewMockBatchStore(gomock.NewController(t))
	queue.EXPECT().Add(gomock.Any(), gomock.Any()).Return(errors.New("disk full"))
	queue.EXPECT().Get(gomock.Any(), batch.Key{Service: "sea", ID: "s-1"}).Return(batch.Record{}, errors.New("disk broken"))
	service := NewShipments(queue)

	code, _ := call(t, service, "POST", "/shipments", tea)
	assert.Equal(t, http.StatusServiceUnavailable, code)
	code, _ = call(t, service, "GET", "/shipments/sea/s-1", "")
	assert.Equal(t, http.StatusServiceUnavailable, code)
}

// TestWhatIsSent expects that the ledger gets exactly one attempt, with exactly these bytes. The
// store is no mock: store/memory keeps what the Runner writes.
func TestWhatIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mock := dltmock.NewMockLedger(gomock.NewController(t))
		mock.EXPECT().Traits(gomock.Any()).Return(dlt.Traits{Name: "mock"}).AnyTimes()
		mock.EXPECT().Submit(gomock.Any(), batch.Attempt{
			Key: batch.Key{Service: "sea", ID: "s-1"}, Number: 1, Payload: []byte(`{"carrier":"sea","id":"s-1","goods":"tea"}`),
		}).Return(nil)
		mock.EXPECT().BatchStatuses(gomock.Any(), gomock.Any(), gomock.Len(1)).
			Return([]batch.Status{{ID: "s-1", Reported: batch.ReportedCommitted}}, nil)

		runner, err := dltbatch.New(memory.New(), mock, nil)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- runner.Run(ctx) }()
		service := NewShipments(runner)
		book(t, service)
		_, err = runner.Await(ctx, batch.Key{Service: "sea", ID: "s-1"})
		require.NoError(t, err)
		assert.Equal(t, Answer{State: "confirmed"}, ask(t, service))
		cancel()
		require.NoError(t, <-ended)
	})
}
