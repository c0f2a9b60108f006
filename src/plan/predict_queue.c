// SPDX-License-Identifier: Apache-2.0
// predict_queue.c - closed queues: learners compute and are served, round and round.
#include "plan/predict_inner.h"

#include <math.h>

// The quantile of the standard normal distribution (Acklam's rational approximation, relative error 1e-9), of
// probabilities from one half up.
static double normal_quantile(double p) {
    static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                               1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
    static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02, -1.556989798598866e+02,
                               6.680131188771972e+01, -1.328068155288572e+01};
    static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                               -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
    static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                               3.754408661907416e+00};
    if (p > 1 - 0.02425) {
        const double q = sqrt(-2 * log(1 - p));
        return -(((((c[0] * q + c[1]) * q + c[2]) * q + c[3]) * q + c[4]) * q + c[5]) /
               ((((d[0] * q + d[1]) * q + d[2]) * q + d[3]) * q + 1);
    }
    const double q = p - 0.5, r = q * q;
    return (((((a[0] * r + a[1]) * r + a[2]) * r + a[3]) * r + a[4]) * r + a[5]) * q /
           (((((b[0] * r + b[1]) * r + b[2]) * r + b[3]) * r + b[4]) * r + 1);
}

// The largest of n is about the quantile at 0.5264 ^ (1 / n) (Chen and Tyler 1999; within 3 %).
double mu_expected_max(int n) {
    if (n < 2) return 0;
    return n == 2 ? 0.5641896 : normal_quantile(pow(0.5264, 1.0 / n));
}

// Bard and Schweitzer's approximation of mean value analysis. Each learner is a class of its own with two
// customers, its slots, and a station of its own, at which one is computed at a time; the server is common. A
// customer that arrives sees the others as they are in the mean, of its own class half of it. Times vary
// little, so what is being served when one arrives has half of its time left: not all, as it would with
// exponential times.
double mu_queue_with_slots(int n, double compute_s, double service_s) {
    if (service_s <= 0) return compute_s;
    double at_server = 1, round_s = compute_s + service_s;
    for (int i = 0; i < 200; i++) {
        const double rate = 2 / round_s;                        // of a learner
        const double busy = fmin(1, n * rate * service_s);      // the server is, when one arrives
        const double seen = (n - 1) * at_server + 0.5 * at_server;
        const double own = fmin(1, rate * compute_s), in_work = 2 - at_server;
        const double served = service_s * (1 + fmax(seen - busy, 0) + 0.5 * busy);
        const double computed = compute_s * (1 + fmax(0.5 * in_work - own, 0) + 0.5 * fmin(own, 0.5 * in_work));
        const double next = served + computed;
        at_server = 0.5 * at_server + 0.5 * 2 * served / next;
        round_s = 0.5 * round_s + 0.5 * next;
    }
    const double each = round_s / 2;
    return fmax(each, fmax(compute_s, n * service_s));
}

double mu_queue_with_answer(int n, double compute_s, double service_s) {
    double waiting = 0, round_s = compute_s + service_s;
    for (int k = 1; k <= n; k++) {
        const double served = service_s * (1 + waiting);
        round_s = compute_s + served;
        waiting = k * served / round_s; // Little: those at the server, of k learners
    }
    return round_s;
}
