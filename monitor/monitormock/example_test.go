package monitormock_test

import (
	"context"
	"fmt"

	"go.uber.org/mock/gomock"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/monitor/monitormock"
	"github.com/dltbatch/dltbatch/store"
)

// reporter stands for *testing.T.
type reporter struct{}

func (reporter) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (reporter) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// One batch is due, and no other is.
func Example() {
	due := monitormock.NewMockPendingBatchStore(gomock.NewController(reporter{})) // in a test: NewController(t)
	row := store.InFlight{Ref: store.Ref{Key: batch.Key{Service: "shipments", ID: "b1"}}, State: batch.Pending}
	due.EXPECT().Pending(gomock.Any(), gomock.Any()).Return([]store.InFlight{row}, nil)
	rows, err := due.Pending(context.Background(), store.PendingQuery{Limit: 10})
	for _, r := range rows {
		fmt.Println(r.Key, r.State, err)
	}
	// Output: shipments/b1 pending <nil>
}
