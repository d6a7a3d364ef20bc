# Linear regression without tf.function, as tutorials begin.
import tensorflow as tf


class MyModel(tf.Module):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.w = tf.Variable(5.0)
        self.b = tf.Variable(0.0)

    def __call__(self, x):
        return self.w * x + self.b


def loss(target_y, predicted_y):
    return tf.reduce_mean(tf.square(target_y - predicted_y))


def train(model, x, y, learning_rate):
    with tf.GradientTape() as t:
        current_loss = loss(y, model(x))
    dw, db = t.gradient(current_loss, [model.w, model.b])
    model.w.assign_sub(learning_rate * dw)
    model.b.assign_sub(learning_rate * db)


x = tf.linspace(-2, 2, 201)
x = tf.cast(x, tf.float32)
y = 3.0 * x + 2.0 + tf.random.normal(shape=[201])
model = MyModel()
weights = []
for epoch in range(10):
    train(model, x, y, learning_rate=0.1)
    weights.append(model.w.numpy())
    print(f"Epoch {epoch:2d}: loss {loss(y, model(x)).numpy():2.5f}")
