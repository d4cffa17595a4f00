#include "base/time.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/text.h"

struct cc_mono cc_mono_add_ms(struct cc_mono time, int64_t ms) {
    int64_t delta, sum;
    if (__builtin_mul_overflow(ms, CC_NS_PER_MS, &delta) || __builtin_add_overflow(time.ns, delta, &sum))
        return (struct cc_mono){ms < 0 ? INT64_MIN : INT64_MAX};
    return (struct cc_mono){sum};
}

int64_t cc_mono_diff_ms(struct cc_mono a, struct cc_mono b) {
    int64_t delta;
    if (__builtin_sub_overflow(a.ns, b.ns, &delta))
        delta = a.ns > b.ns ? INT64_MAX : INT64_MIN;
    int64_t ms = delta / CC_NS_PER_MS;
    return delta % CC_NS_PER_MS < 0 ? ms - 1 : ms;
}

bool cc_mono_is_before(struct cc_mono a, struct cc_mono b) {
    return a.ns < b.ns;
}

bool cc_wall_is_set(struct cc_wall time) {
    return time.ns != 0;
}

/* `count` digits at text; false when one is none. */
static bool digits(const char *text, int count, int *ret) {
    int value = 0;
    for (int i = 0; i < count; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (text[i] - '0');
    }
    *ret = value;
    return true;
}

/* Days since 1970-01-01 of a proleptic Gregorian date (era arithmetic, so that no time zone database is involved). */
static int64_t days_from_civil(int year, int month, int day) {
    int y = month <= 2 ? year - 1 : year;
    int era = (y >= 0 ? y : y - 399) / 400;
    int year_of_era = y - era * 400;
    int day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    int day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    return (int64_t)era * 146097 + day_of_era - 719468;
}

static int days_in_month(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : days[month - 1];
}

/* "Z", "z" or "+hh:mm": seconds east of UTC; the text must end there. */
static bool zone_parse(const char *text, int64_t *ret_seconds) {
    if ((*text == 'Z' || *text == 'z') && !text[1])
        return *ret_seconds = 0, true;
    int hours, minutes;
    if ((*text != '+' && *text != '-') || strlen(text) != 6 || text[3] != ':' || !digits(text + 1, 2, &hours) ||
        !digits(text + 4, 2, &minutes) || hours > 23 || minutes > 59)
        return false;
    int64_t seconds = hours * 3600 + minutes * 60;
    *ret_seconds = *text == '-' ? -seconds : seconds;
    return true;
}

bool cc_rfc3339_parse(const char *text, struct cc_wall *ret) {
    int year, month, day, hour, minute, second;
    if (!text || strlen(text) < 20 || strlen(text) > 35)
        return false;
    if (!digits(text, 4, &year) || text[4] != '-' || !digits(text + 5, 2, &month) || text[7] != '-' ||
        !digits(text + 8, 2, &day) || (text[10] != 'T' && text[10] != 't') || !digits(text + 11, 2, &hour) ||
        text[13] != ':' || !digits(text + 14, 2, &minute) || text[16] != ':' || !digits(text + 17, 2, &second))
        return false;
    if (year < 1 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month) || hour > 23 ||
        minute > 59 || second > 59)
        return false;
    const char *rest = text + 19;
    int64_t fraction = 0;
    if (*rest == '.') {
        int64_t scale = CC_NS_PER_S;
        for (rest++; *rest >= '0' && *rest <= '9' && scale > 1; rest++) {
            scale /= 10;
            fraction += (*rest - '0') * scale;
        }
        if (scale == CC_NS_PER_S)
            return false;
    }
    int64_t zone, ns;
    if (!zone_parse(rest, &zone))
        return false;
    int64_t seconds = days_from_civil(year, month, day) * 86400 + hour * 3600 + minute * 60 + second - zone;
    if (__builtin_mul_overflow(seconds, CC_NS_PER_S, &ns) || __builtin_add_overflow(ns, fraction, &ns))
        ns = seconds < 0 ? INT64_MIN : INT64_MAX;
    ret->ns = ns;
    return true;
}

static const char *format(struct cc_wall time, int fraction_digits, bool trim, char buffer[CC_RFC3339_BYTES]) {
    int64_t seconds = time.ns / CC_NS_PER_S, fraction = time.ns % CC_NS_PER_S;
    if (fraction < 0) {
        fraction += CC_NS_PER_S;
        seconds--;
    }
    time_t calendar = (time_t)seconds;
    struct tm parts;
    gmtime_r(&calendar, &parts);
    size_t used = strftime(buffer, CC_RFC3339_BYTES, "%Y-%m-%dT%H:%M:%S", &parts);
    if (fraction_digits) {
        char nanos[16];
        snprintf(nanos, sizeof nanos, "%09lld", (long long)fraction);
        nanos[fraction_digits] = '\0';
        size_t count = (size_t)fraction_digits;
        while (trim && count && nanos[count - 1] == '0')
            nanos[--count] = '\0';
        if (count)
            used += (size_t)snprintf(buffer + used, CC_RFC3339_BYTES - used, ".%s", nanos);
    }
    snprintf(buffer + used, CC_RFC3339_BYTES - used, "Z");
    return buffer;
}

const char *cc_rfc3339_seconds(struct cc_wall time, char buffer[CC_RFC3339_BYTES]) {
    return format(time, 0, false, buffer);
}

const char *cc_rfc3339_micros(struct cc_wall time, char buffer[CC_RFC3339_BYTES]) {
    return format(time, 6, false, buffer);
}

const char *cc_rfc3339_nanos(struct cc_wall time, char buffer[CC_RFC3339_BYTES]) {
    return format(time, 9, true, buffer);
}
