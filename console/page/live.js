// A page that is kept up to date reads itself again once the server says that there is a newer look. While
// nobody sees it, it listens to nothing. Without this script the browser reads it again every half a minute.
'use strict';
let stream, seen;
function listen() {
  if (document.hidden) {
    stream?.close();
    stream = undefined;
  } else if (!stream) {
    stream = new EventSource('live');
    stream.addEventListener('look', event => {
      if (seen !== undefined && seen !== event.data) location.reload();
      seen = event.data;
    });
  }
}
document.addEventListener('visibilitychange', listen);
listen();
