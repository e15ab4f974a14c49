package storemock_test

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/mock/gomock"

	"github.com/dltbatch/dltbatch/batch"
	"github.com/dltbatch/dltbatch/store"
	"github.com/dltbatch/dltbatch/store/storemock"
)

// reporter stands for *testing.T.
type reporter struct{}

func (reporter) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (reporter) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// order is the code under test: it must report an order that was not stored.
func order(ctx context.Context, st store.BatchStore, id batch.ID) string {
	if err := st.Add(ctx, batch.Batch{Service: "shipments", ID: id, Payload: []byte("tea")}); err != nil {
		return "try again later: " + err.Error()
	}
	return "ordered"
}

// A mock can return the error of a full disk, which no store does on demand.
func Example() {
	st := storemock.NewMockBatchStore(gomock.NewController(reporter{})) // in a test: NewController(t)
	st.EXPECT().Add(gomock.Any(), gomock.Any()).Return(errors.New("disk full"))
	st.EXPECT().Add(gomock.Any(), gomock.Any()).Return(nil)
	fmt.Println(order(context.Background(), st, "b1"))
	fmt.Println(order(context.Background(), st, "b1"))
	// Output:
	// try again later: disk full
	// ordered
}
