/* Sends the frames of a file, each behind its length of 4 bytes, on an interface: send INTERFACE FILE. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

int main(int count, char **words) {
    static unsigned char frame[1 << 16];
    uint32_t bytes;
    if (count != 3) return 2;
    int out = socket(AF_PACKET, SOCK_RAW, 0);
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(words[1])};
    FILE *frames = fopen(words[2], "rb");
    /* What a pipe has is sent at once. */
    if (frames) setvbuf(frames, NULL, _IONBF, 0);
    if (out < 0 || !frames || bind(out, (struct sockaddr *)&to, sizeof to)) {
        perror(words[1]);
        return 1;
    }
    while (fread(&bytes, sizeof bytes, 1, frames) == 1) {
        if (bytes > sizeof frame || fread(frame, 1, bytes, frames) != bytes) return 3;
        while (send(out, frame, bytes, 0) < 0) {
            if (errno != ENOBUFS) {
                perror("send");
                return 1;
            }
        }
    }
    return 0;
}
