package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/dltbatch/dltbatch/store/postgres/internal/conns"
)

// minOpenConns is the smallest limit of open connections of a *sql.DB at which the store keeps one
// of them for hints.
const minOpenConns = 4

// Listen takes a connection of the pool, because database/sql hides how to open another one. The
// driver's connection must have a method Conn whose result has a method WaitForNotification, as
// pgx's has. The package finds these methods by reflection, so that nobody links a driver that is
// not used.
func (p sqlPool) Listen(ctx context.Context) (_ conns.Listener, way string, err error) {
	if n := p.db.Stats().MaxOpenConnections; n > 0 && n < minOpenConns {
		return nil, "", fmt.Errorf("the pool may open %d connections, and one of %d or more would be taken to listen: %w", n, minOpenConns, conns.ErrNoListener)
	}
	c, err := p.db.Conn(ctx)
	if err != nil {
		return nil, "", err
	}
	var wait reflect.Value
	err = c.Raw(func(connection any) error {
		wait = waitMethod(connection)
		return nil
	})
	if err == nil && !wait.IsValid() {
		err = fmt.Errorf("the driver (%T) cannot wait for notifications: %w", p.db.Driver(), conns.ErrNoListener)
	}
	if err != nil {
		_ = c.Close() // the earlier error is returned
		return nil, "", err
	}
	return sqlListener{c, wait}, fmt.Sprintf("a connection of the pool (%T)", p.db.Driver()), nil
}

// waitMethod returns the WaitForNotification of a driver's connection, or the zero Value if it has
// none.
func waitMethod(connection any) (none reflect.Value) {
	of := reflect.ValueOf(connection).MethodByName("Conn")
	if !of.IsValid() || of.Type().NumIn() != 0 || of.Type().NumOut() != 1 {
		return none
	}
	wait := of.Call(nil)[0].MethodByName("WaitForNotification")
	if !wait.IsValid() || wait.Type().NumIn() != 1 || wait.Type().NumOut() != 2 || wait.Type().In(0) != reflect.TypeFor[context.Context]() {
		return none
	}
	if n := wait.Type().Out(0); n.Kind() != reflect.Pointer || n.Elem().Kind() != reflect.Struct {
		return none
	}
	return wait
}

// sqlListener is a [conns.Listener].
type sqlListener struct {
	conn     *sql.Conn
	waitFunc reflect.Value
}

// Listen implements [conns.Listener].
func (l sqlListener) Listen(ctx context.Context, channel string) error {
	_, err := l.conn.ExecContext(ctx, `LISTEN "`+channel+`"`) // the name of the channel has no quotes
	return err
}

func (l sqlListener) Next(ctx context.Context) (payload string, err error) {
	err = l.conn.Raw(func(any) error {
		out := l.waitFunc.Call([]reflect.Value{reflect.ValueOf(ctx)})
		if err, is := reflect.TypeAssert[error](out[1]); is && err != nil {
			return err
		}
		if out[0].IsNil() {
			return errors.New("the application takes the notifications of its connections itself (pgx's OnNotification)")
		}
		text := out[0].Elem().FieldByName("Payload")
		if !text.IsValid() || text.Kind() != reflect.String {
			return fmt.Errorf("a notification without a payload: %s", out[0].Type())
		}
		payload = text.String()
		return nil
	})
	return payload, err
}

// unlistenLimit bounds how long Close waits for the server.
const unlistenLimit = time.Second

func (l sqlListener) Close(error) {
	ctx, cancel := context.WithTimeout(context.Background(), unlistenLimit)
	defer cancel()
	_, _ = l.conn.ExecContext(ctx, `UNLISTEN *`)                 // an error does not matter, since the session ends
	_ = l.conn.Raw(func(any) error { return driver.ErrBadConn }) // closes the connection, which may still listen
	_ = l.conn.Close()
}
