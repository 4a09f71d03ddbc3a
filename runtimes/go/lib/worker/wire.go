package worker

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// Types and flags of frames.
const (
	ready, invoke, body, result, failure, record, stop, cancel = 1, 2, 3, 4, 5, 6, 7, 8

	more, optional = 1, 2
	frameMax       = 256 << 10
)

// wire reads and writes frames on descriptor 3.
type wire struct {
	reader  *bufio.Reader
	writer  io.Writer
	sending sync.Mutex
	// Incomplete messages by call.
	begun map[uint64]message
}

// message is a whole message.
type message struct {
	kind    uint8
	call    uint64
	content []byte
}

func newWire() *wire {
	// Programs that the function starts do not hold the socket open.
	syscall.CloseOnExec(3)
	socket := os.NewFile(3, "fnd")
	return &wire{reader: bufio.NewReaderSize(socket, 64<<10), writer: socket, begun: map[uint64]message{}}
}

// next returns the next message of fnd; io.EOF at the end of the socket.
func (wire *wire) next() (message, error) {
	for {
		var header [16]byte
		if _, err := io.ReadFull(wire.reader, header[:]); err != nil {
			return message{}, io.EOF
		}
		length, kind, flags := binary.LittleEndian.Uint32(header[:4]), header[4], header[5]
		call := binary.LittleEndian.Uint64(header[8:])
		if length > frameMax || header[6]|header[7] != 0 {
			return message{}, errors.New("fnd sent an invalid frame")
		}
		content := make([]byte, length)
		if _, err := io.ReadFull(wire.reader, content); err != nil {
			return message{}, io.EOF
		}
		if kind != invoke && kind != body && kind != stop && kind != cancel {
			if flags&optional == 0 {
				return message{}, errors.New("fnd sent a frame of an unknown type")
			}
			continue
		}
		whole := message{kind, call, content}
		if kind == body {
			before := wire.begun[call]
			whole = message{before.kind, call, append(before.content, content...)}
			delete(wire.begun, call)
		}
		if flags&more == 0 {
			return whole, nil
		}
		wire.begun[call] = whole
	}
}

// send writes a message. If fnd has closed the socket, nobody waits for the answer, and the worker ends.
func (wire *wire) send(call uint64, kind uint8, content []byte) {
	frames := make([]byte, 0, len(content)+16)
	for first := true; first || len(content) > 0; first = false {
		piece := content
		var flags uint8
		if len(content) > frameMax {
			piece, flags = content[:frameMax], more
		}
		content = content[len(piece):]
		frames = binary.LittleEndian.AppendUint32(frames, uint32(len(piece)))
		frames = append(frames, kind, flags, 0, 0)
		frames = binary.LittleEndian.AppendUint64(frames, call)
		frames = append(frames, piece...)
		kind = body
	}
	wire.sending.Lock()
	defer wire.sending.Unlock()
	if _, err := wire.writer.Write(frames); err != nil {
		os.Exit(0)
	}
}
