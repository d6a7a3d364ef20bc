"""Neural collaborative filtering (NeuMF) on MovieLens-100k."""
import heapq
import math
from time import time

import numpy as np
import pandas as pd
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras.layers import Concatenate, Dense, Embedding, Flatten, Input, Multiply
from tensorflow.keras.regularizers import l2

URL = 'http://files.grouplens.org/datasets/movielens/ml-100k.zip'
TOP_K = 10
NUM_NEG = 4


def load():
    path = keras.utils.get_file('ml-100k.zip', URL, extract=True)
    df = pd.read_csv(path.replace('.zip', '/u.data'), sep='\t', names=['user', 'item', 'rating', 'ts'])
    df['user'] -= 1
    df['item'] -= 1
    df = df.sort_values('ts')
    test = df.groupby('user').tail(1)
    train = df.drop(test.index)
    return train, test, df.user.max() + 1, df.item.max() + 1


def negatives(test, seen, num_items, n=99):
    rng = np.random.RandomState(0)
    result = {}
    for u in test.user:
        items = []
        while len(items) < n:
            j = rng.randint(num_items)
            if (u, j) not in seen:
                items.append(j)
        result[u] = items
    return result


def get_train_instances(train, seen, num_items):
    users, items, labels = [], [], []
    for u, i in zip(train.user, train.item):
        users.append(u)
        items.append(i)
        labels.append(1)
        for _ in range(NUM_NEG):
            j = np.random.randint(num_items)
            while (u, j) in seen:
                j = np.random.randint(num_items)
            users.append(u)
            items.append(j)
            labels.append(0)
    return np.array(users), np.array(items), np.array(labels)


def get_model(num_users, num_items, mf_dim=8, layers=(64, 32, 16, 8), reg=1e-6):
    user_input = Input(shape=(1,), dtype='int32', name='user_input')
    item_input = Input(shape=(1,), dtype='int32', name='item_input')

    def embed(inputs, count, dim, name):
        emb = Embedding(count, dim, embeddings_initializer='he_normal',
                        embeddings_regularizer=l2(reg), input_length=1, name=name)
        return Flatten()(emb(inputs))

    mf = Multiply()([embed(user_input, num_users, mf_dim, 'mf_user'),
                     embed(item_input, num_items, mf_dim, 'mf_item')])
    mlp = Concatenate()([embed(user_input, num_users, layers[0] // 2, 'mlp_user'),
                         embed(item_input, num_items, layers[0] // 2, 'mlp_item')])
    for n, width in enumerate(layers[1:]):
        mlp = Dense(width, activation='relu', kernel_regularizer=l2(reg), name='layer%d' % n)(mlp)
    out = Dense(1, activation='sigmoid', kernel_initializer='lecun_uniform', name='prediction')(
        Concatenate()([mf, mlp]))
    return keras.Model(inputs=[user_input, item_input], outputs=out)


def evaluate_model(model, test, test_negatives, k):
    hits, ndcgs = [], []
    for user, gt_item in zip(test.user, test.item):
        items = test_negatives[user] + [gt_item]
        users = np.full(len(items), user, dtype='int32')
        predictions = model.predict([users, np.array(items)], batch_size=100, verbose=0)  #! host-round-trip
        scores = dict(zip(items, predictions[:, 0]))
        ranked = heapq.nlargest(k, scores, key=scores.get)
        hits.append(int(gt_item in ranked))
        ndcgs.append(math.log(2) / math.log(ranked.index(gt_item) + 2) if gt_item in ranked else 0.)
    return np.mean(hits), np.mean(ndcgs)


def main(epochs=20, batch_size=256, lr=0.001):
    train, test, num_users, num_items = load()
    seen = set(zip(train.user, train.item))
    test_negatives = negatives(test, seen, num_items)
    print('#user=%d, #item=%d, #train=%d, #test=%d' % (num_users, num_items, len(train), len(test)))

    model = get_model(num_users, num_items)
    model.compile(optimizer=tf.keras.optimizers.Adam(learning_rate=lr), loss='binary_crossentropy')
    model.summary()

    hr, ndcg = evaluate_model(model, test, test_negatives, TOP_K)
    print('Init: HR = %.4f, NDCG = %.4f' % (hr, ndcg))
    best_hr, best_epoch = hr, -1
    for epoch in range(epochs):
        t1 = time()
        users, items, labels = get_train_instances(train, seen, num_items)
        hist = model.fit([users, items], labels, batch_size=batch_size, epochs=1, verbose=0, shuffle=True)
        t2 = time()
        hr, ndcg = evaluate_model(model, test, test_negatives, TOP_K)
        print('Iteration %d [%.1f s]: HR = %.4f, NDCG = %.4f, loss = %.4f [%.1f s]'
              % (epoch, t2 - t1, hr, ndcg, hist.history['loss'][0], time() - t2))
        if hr > best_hr:
            best_hr, best_epoch = hr, epoch
            model.save_weights('ncf_%d.h5' % epoch, overwrite=True)
    print('End. Best iteration %d: HR = %.4f' % (best_epoch, best_hr))


if __name__ == '__main__':
    main()
